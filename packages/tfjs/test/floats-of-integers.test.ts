import assert from "node:assert/strict";
import { cpu } from "@backplane/backend-cpu";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { rawCases, runRaw } from "./raw-kernels.js";

describe("kernels of floats take int32 as the same numbers", () => {
  let registration: Registration;

  before(async () => {
    registration = await register(tf, [cpu()], { name: "whole numbers" });
  });

  after(async () => {
    await tf.setBackend("cpu");
    await registration.dispose();
  });

  for (const [name, call] of Object.entries(rawCases))
    it(name, async () => {
      const result = async (dtype: "int32" | "float32"): Promise<number[]> => {
        const { numTensors } = tf.memory();
        const tensor = tf.tidy(() => runRaw(name, call, dtype));
        assert.equal(tensor.dtype, "float32");
        const values = [...(await tensor.data())];
        tensor.dispose();
        assert.equal(tf.memory().numTensors, numTensors);
        return values;
      };
      const expected = await result("float32");
      assert.ok(expected.some((value) => value !== 0));
      assert.deepEqual(await result("int32"), expected);
    });
});
