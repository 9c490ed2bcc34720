import assert from "node:assert/strict";
import type { BackendProvider, SwitchableBackend } from "@backplane/core";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import fc from "fast-check";

/* Programs of elementwise kernels, with and without fusion. */

/** One step of a program: a kernel on tensors made before, by their places from the last one. */
interface Step {
  readonly kernel: number;
  readonly a: number;
  readonly b: number;
  readonly c: number;
  /** What happens then: the tensor a is disposed of, the result is read, or neither. */
  readonly next: "dispose" | "read" | "nothing";
}

const kernels: readonly ((a: tf.Tensor, b: tf.Tensor, c: tf.Tensor) => tf.Tensor)[] = [
  (a, b) => tf.add(a, b),
  (a, b) => tf.sub(a, b),
  (a, b) => tf.mul(a, b),
  (a) => tf.mul(a, a),
  (a) => tf.add(a, tf.scalar(0.3, "float32")),
  (a) => tf.mul(tf.scalar(3, "int32"), a),
  (a, b) => tf.div(tf.cast(a, "float32"), tf.cast(b, "float32")),
  (a, b) => tf.maximum(a, b),
  (a) => tf.sigmoid(a),
  (a) => tf.tanh(tf.cast(a, "float32")),
  (a) => tf.elu(a),
  (a) => tf.clipByValue(a, -2, 1.5),
  (a) => tf.neg(a),
  (a) => tf.sqrt(tf.abs(a)),
  (a, b) => tf.less(a, b),
  (a, b) => tf.logicalAnd(tf.cast(a, "bool"), tf.cast(b, "bool")),
  (a, b) => tf.squaredDifference(a, b),
  (a, b, c) => (a.shape.join() === b.shape.join() ? tf.where(tf.cast(c, "bool"), a, b) : tf.relu(a)),
  (a) => tf.cast(a, "int32"),
  (a) => tf.isNaN(a),
  (a) => tf.reshape(a, [a.size]),
  (a) => (a.rank === 1 && a.size % 2 === 0 ? tf.reshape(a, [2, a.size / 2]) : tf.neg(a)) as tf.Tensor,
  (a) => tf.reverse(a, 0),
  (a) => tf.sum(a, 0, true),
];

/** What compilers cancel or factor that need not keep NaN. */
const cancelled: readonly ((a: tf.Tensor, b: tf.Tensor) => tf.Tensor)[] = [
  (a, b) => tf.add(tf.sub(a, b), b),
  (a, b) => tf.sub(b, tf.sub(b, a)),
  (a, b) => tf.div(tf.mul(a, b), b),
  (a, b) => tf.mul(tf.div(a, b), b),
  (a, b) => tf.add(tf.mul(a, b), tf.mul(a, a)),
  (a) => tf.reciprocal(tf.reciprocal(a)),
  (a) => tf.mul(a, tf.reciprocal(a)),
  (a, b) => tf.add(tf.sub(a, tf.exp(b)), tf.exp(b)),
  (a, b) => tf.div(tf.mul(tf.sigmoid(a), tf.add(a, b)), tf.add(a, b)),
  (a, b) => tf.neg(tf.sub(tf.neg(a), tf.neg(b))),
  (a, b) => {
    const quotient = tf.div(a, b);
    return tf.mul(quotient, tf.reciprocal(quotient));
  },
  // Kept all the same.
  (a, b) => tf.maximum(tf.log(a), b),
  (a, b) => tf.where(tf.isNaN(tf.sqrt(a)), b, tf.sqrt(a)),
  (a, b) => tf.relu(tf.sub(tf.div(a, b), 1)),
];

/** Inputs broadcast to one another, and so do all results. */
const inputs = (): tf.Tensor[] => [
  tf.tensor2d([0.5, -1.25, 3e5, Number.NaN, -0, 1e-3, 7, -9, 1.1, 2.2], [2, 5]),
  tf.tensor2d([1.5, 0.25, -3, 2, 1e30, -1e-30, 0, 4, -0.7, 0.1], [2, 5]),
  tf.tensor2d([2, -0.5, 0, 1, 3], [1, 5]),
  tf.tensor2d([3, -7], [2, 1]),
  tf.tensor2d([5, -3, 2 ** 30, 0, 1, 9, -8, 7, 2, 4], [2, 5], "int32"),
  tf.tensor2d([1, 0, 1, 1, 0, 0, 1, 0, 1, 1], [2, 5], "bool"),
];

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    kernel: fc.nat(kernels.length - 1),
    a: fc.nat(7),
    b: fc.nat(7),
    c: fc.nat(7),
    next: fc.constantFrom("nothing", "nothing", "nothing", "dispose", "read"),
  }),
  { minLength: 1, maxLength: 30 },
);

/** Runs a program. Returns the bits of what is left, from the last on or from the first on. */
async function bitsOf(program: readonly Step[], fromLast: boolean): Promise<readonly unknown[]> {
  const tensors = inputs();
  const at = (place: number) => tensors[tensors.length - 1 - (place % tensors.length)]!;
  for (const { kernel, a, b, c, next } of program) {
    const [x, y, z] = [at(a), at(b), at(c)];
    const of = kernels[kernel]!;
    let result: tf.Tensor;
    try {
      result = tf.tidy(() => of(x, y, z));
    } catch (error) {
      // Of shapes that do not broadcast, or of a type that a kernel refuses.
      if (error instanceof Error) continue;
      throw error;
    }
    tensors.push(result);
    if (next === "read") await result.data();
    if (next === "dispose" && tensors.length > 2) {
      tensors.splice(tensors.indexOf(x), 1);
      x.dispose();
    }
  }
  const order = tensors.map((_, i) => i);
  const read: unknown[] = [];
  for (const i of fromLast ? order.reverse() : order) {
    const values = await tensors[i]!.data();
    // NaN is one value: which of its bits there are depends on the processor.
    read[i] = [tensors[i]!.shape, tensors[i]!.dtype, [...values]];
  }
  tf.dispose(tensors);
  return read;
}

/** Returns the operations that a backend is asked for, in order. */
export function callsOf(compute: SwitchableBackend, body: () => unknown): string[] {
  const { names, end } = watched(compute);
  try {
    body();
  } finally {
    end();
  }
  return names;
}

/** Notes the operations that a backend is asked for, until the end. */
export function watched(compute: SwitchableBackend): { readonly names: string[]; readonly end: () => void } {
  const names: string[] = [];
  const original = compute.run as (...args: unknown[]) => unknown;
  Object.assign(compute, {
    run(...args: unknown[]) {
      names.push((args[0] as { readonly name: string }).name);
      return original.apply(compute, args);
    },
  });
  return { names, end: () => void Reflect.deleteProperty(compute, "run") };
}

/** Declares the properties on one backend. */
export function describeFusion(provider: () => BackendProvider, numRuns: number): void {
  describe(`chains of elementwise kernels on ${provider().name}`, () => {
    const registrations: Registration[] = [];

    before(async () => {
      for (const fusion of [true, false])
        registrations.push(
          await register(tf, [provider()], { name: fusion ? "fused" : "alone", fusion, hostElements: 0 }),
        );
    });

    after(async () => {
      await tf.setBackend("cpu");
      for (const registration of registrations) await registration.dispose();
    });

    it("give the same bits as kernel by kernel, and leave nothing behind", async () => {
      await fc.assert(
        fc.asyncProperty(steps, fc.boolean(), async (program, fromLast) => {
          const results: (readonly unknown[])[] = [];
          for (const { name, compute } of registrations) {
            await tf.setBackend(name);
            const count = () => [
              tf.memory().numTensors,
              tf.engine().backend.numDataIds(),
              compute.memory().liveAllocations,
            ];
            const before = count();
            results.push(await bitsOf(program, fromLast));
            assert.deepEqual(count(), before);
          }
          assert.deepEqual(results[0], results[1]);
        }),
        { numRuns },
      );
    });

    it("have all of a step of an LSTM", async () => {
      const { name, compute } = registrations[0]!;
      await tf.setBackend(name);
      const device = Array.from({ length: 5 }, (_, i) => tf.reverse(tf.tensor1d([i, 1, -2]), 0));
      const [input, forget, output, news, cell] = device as [
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
      ];
      const { names, end } = watched(compute);
      const state = tf.tidy(() => {
        const kept = tf.mul(tf.sigmoid(forget), cell);
        const next = tf.add(kept, tf.mul(tf.sigmoid(input), tf.tanh(news)));
        return tf.mul(tf.sigmoid(output), tf.tanh(next));
      });
      await state.data();
      end();
      assert.deepEqual(names, ["map"]);
      tf.dispose([...device, state]);
    });

    it("cancel nothing", async () => {
      const values = [3, -2, 0, Number.NaN, Number.POSITIVE_INFINITY, 1e38, 2 ** 24 + 2, 0.3];
      const results: unknown[] = [];
      for (const { name } of registrations) {
        await tf.setBackend(name);
        const a = tf.tensor2d(
          values.flatMap((value) => values.map(() => value)),
          [8, 8],
        );
        const b = tf.tensor2d(
          values.flatMap(() => values),
          [8, 8],
        );
        const made = cancelled.map((of) => tf.tidy(() => of(a, b)));
        results.push(await Promise.all(made.map(async (one) => [...(await one.data())])));
        tf.dispose([a, b, ...made]);
      }
      assert.deepEqual(results[0], results[1]);
    });
  });
}
