// Tags: kernels, pure
import { evaluateCall } from "@backplane/conformance";
import { type FloatType, floatTypes, type SoftmaxKind, softmaxKinds } from "@backplane/core";
import { expect } from "chai";
import { softmaxGradient } from "#src/kernels/softmax-gradient/index.js";
import { asStored } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedOutput, uploadElements } from "./problems.js";

type Extents = readonly [outer: number, length: number, inner: number];

/** Around vectors, folds, panels and pieces; each form of kernel. */
const shapes: readonly Extents[] = [
  ...([
    [1, 1, 1],
    [3, 255, 1],
    [2, 257, 1],
    [5000, 3, 1],
    // A row that is computed while the next one is summed up: in chunks of several rows, and of one.
    [9, 1024, 1],
    [16, 1031, 1],
    [2, 16_390, 1],
    [2, 32_769, 1],
    [1, 70_001, 1],
  ] as const),
  ...([
    [3, 5, 2],
    [2, 33, 16],
    [1, 31, 513],
    [9, 2, 1000],
    [1, 2049, 18],
    [1, 20_000, 3],
  ] as const),
];

describeEitherWay("softmaxGradient kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(softmaxGradient.kernels, { ...options, pages: 2048, workers: 3 });
  });

  const run = (
    kind: SoftmaxKind,
    dtype: FloatType,
    [outer, length, inner]: Extents,
    y: Float32Array,
    dy: Float32Array,
    over?: "output" | "outputGradient",
  ): Float32Array => {
    const result = guardedOutput(bench, dtype, y.length);
    const inputGradient = { ...result.region };
    const inputs = {
      output: uploadElements(bench, dtype, y),
      outputGradient: uploadElements(bench, dtype, dy),
    };
    if (over !== undefined) {
      const { memory, byteOffset, byteLength } = inputs[over];
      const from = memory.byteOffset + byteOffset;
      const to = inputGradient.memory.byteOffset + inputGradient.byteOffset;
      new Uint8Array(bench.memory.buffer).copyWithin(to, from, from + byteLength);
      inputs[over] = inputGradient;
    }
    const problem = { kind, dtype, outer, length, inner, ...inputs, inputGradient };
    bench.run(softmaxGradient.plan(problem, bench.context));
    return result.read();
  };

  for (const shape of shapes)
    it(`of [${shape}], beside the inputs and over either`, () => {
      const count = shape.reduce((a, b) => a * b);
      const next = randomNumbers(count);
      for (const dtype of floatTypes)
        for (const kind of softmaxKinds) {
          const y = asStored(
            dtype,
            Float32Array.from({ length: count }, () => (kind === "softmax" ? next() : -5 * next())),
          );
          const dy = asStored(
            dtype,
            Float32Array.from({ length: count }, () => next() - 0.5),
          );
          const inputs = { output: Float64Array.from(y), outputGradient: Float64Array.from(dy) };
          const { values, tolerances } = evaluateCall(
            "softmaxGradient",
            { kind, shape, axis: 1, dtype },
            inputs,
          ).inputGradient!;
          const beside = run(kind, dtype, shape, y, dy);
          for (const [i, value] of values.entries())
            if (!(Math.abs(beside[i]! - value) <= tolerances[i]!))
              expect.fail(`${kind} ${dtype}: element ${i} of ${count} is ${beside[i]}, not ${value}`);
          for (const over of ["output", "outputGradient"] as const) {
            const inPlace = run(kind, dtype, shape, y, dy, over);
            expect(Buffer.compare(Buffer.from(inPlace.buffer), Buffer.from(beside.buffer)), over).to.equal(0);
          }
        }
    });
});
