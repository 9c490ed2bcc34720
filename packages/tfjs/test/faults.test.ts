import assert from "node:assert/strict";
import { cpu } from "@backplane/backend-cpu";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { integerCases } from "./integers.js";
import { rawCases, runRaw } from "./raw-kernels.js";

/* Each call of the backend that a kernel makes fails once, and the kernel leaves nothing behind. */

const complex = () => tf.complex(tf.tensor2d([1, 2, 3, 4], [2, 2]), tf.tensor2d([4, 3, 2, 1], [2, 2]));

const bodies: Readonly<Record<string, () => unknown>> = {
  ...Object.fromEntries(Object.entries(integerCases).map(([name, { run }]) => [`${name} of int32`, run])),
  ...Object.fromEntries(
    Object.entries(rawCases).map(([name, call]) => [name, () => runRaw(name, call, "int32")]),
  ),
  "Multiply of complex64": () => tf.mul(complex(), complex()),
  "Reverse of complex64": () => tf.reverse(complex()),
  "Concat of complex64": () => tf.concat([complex(), tf.complex(tf.zeros([0, 2]), tf.zeros([0, 2]))]),
  "Unpack of complex64": () => tf.unstack(complex()),
  "FFT and IFFT": () => tf.ifft(tf.fft(complex())),
  "MirrorPad of two axes of three": () =>
    tf.mirrorPad(
      tf.ones([2, 2, 3]),
      [
        [1, 0],
        [0, 0],
        [1, 2],
      ],
      "symmetric",
    ),
  "Cast to complex64": () => tf.cast(tf.tensor1d([1, 2], "int32"), "complex64"),
};

describe("a kernel of which a call fails leaves nothing behind", () => {
  let registration: Registration;

  before(async () => {
    registration = await register(tf, [cpu({ threads: 0 })], { name: "faults" });
  });

  after(async () => {
    await tf.setBackend("cpu");
    await registration.dispose();
  });

  const live = () => ({
    tensors: tf.memory().numTensors,
    data: tf.engine().backend.numDataIds(),
    allocations: registration.compute.memory().liveAllocations,
  });

  /** Runs the body while call `faulty` of the backend, counted from 0, throws. Returns the number of calls. */
  function runWithFault(
    body: () => unknown,
    faulty: number,
  ): { readonly calls: number; readonly failed: boolean } {
    const { compute } = registration;
    const methods = ["alloc", "fill", "copyHtoD", "copyDtoD", "run"] as const;
    let calls = 0;
    for (const method of methods) {
      const original = compute[method] as (...args: unknown[]) => unknown;
      Object.assign(compute, {
        [method]: (...args: unknown[]) => {
          if (calls++ === faulty) throw new Error("a fault");
          return original.apply(compute, args);
        },
      });
    }
    try {
      const result = tf.tidy(() => body() as tf.TensorContainer);
      tf.dispose(result);
      return { calls, failed: false };
    } catch (error) {
      assert.match((error as Error).message, /a fault/);
      return { calls, failed: true };
    } finally {
      for (const method of methods) Reflect.deleteProperty(compute, method);
    }
  }

  for (const [name, body] of Object.entries(bodies))
    it(name, () => {
      const before = live();
      const { calls } = runWithFault(body, -1);
      assert.deepEqual(live(), before);
      for (let faulty = 0; faulty < calls; faulty++) {
        assert.equal(runWithFault(body, faulty).failed, true);
        assert.deepEqual(live(), before, `call ${faulty} of ${calls}`);
      }
    });
});
