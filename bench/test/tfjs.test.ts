// Tags: once, pure
import { cpu } from "@backplane/backend-cpu";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { assert } from "chai";
import { assertClose, resultsOf, tfjsCases } from "#src/tfjs/cases.js";

describe("programs of TensorFlow.js to be timed", () => {
  let registration: Registration;

  before(async () => {
    registration = await register(tf, [cpu()], { use: false });
  });

  after(async () => {
    await tf.setBackend("cpu");
    await registration.dispose();
  });

  for (const test of tfjsCases)
    it(`${test.name} gives what tfjs-backend-cpu gives, and leaves nothing behind`, async () => {
      await tf.setBackend("cpu");
      const expected = await resultsOf(test);
      await tf.setBackend(registration.name);
      const { numTensors } = tf.memory();
      assertClose("ours", await resultsOf(test), expected);
      assert.equal(tf.memory().numTensors, numTensors);
      assert.equal(registration.compute.memory().liveAllocations, 0);
    });

  it("are refused if one element is off", () => {
    const expected = [Float32Array.of(1, 2), Float32Array.of(0)];
    assertClose("ours", [Float32Array.of(1, 2), Float32Array.of(0)], expected);
    const off = [Float32Array.of(1, 2.001), Float32Array.of(0)];
    assert.throws(() => assertClose("ours", off, expected), /ours: element 1 of result 0 is 2\.00/);
    assert.throws(
      () => assertClose("ours", [Float32Array.of(1, 2)], expected),
      /result 1 has undefined elements/,
    );
    const absent = [Float32Array.of(1, Number.NaN), Float32Array.of(0)];
    assert.throws(() => assertClose("ours", absent, expected), /is NaN; expected: about 2/);
  });
});
