// Tags: kernels, pure
import { type FloatType, floatTypes, type NormalizeKind, normalizeKinds } from "@backplane/core";
import { expect } from "chai";
import { createCpuBackend } from "#src/index.js";
import { normalize } from "#src/kernels/normalize/index.js";
import { asStored, types } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedOutput, uploadElements } from "./problems.js";

interface Data {
  readonly rows: number;
  readonly size: number;
  readonly x: Float32Array;
  readonly weight: Float32Array | undefined;
  readonly bias: Float32Array | undefined;
}

interface Expected {
  readonly value: number;
  readonly bound: number;
}

const epsilon = Math.fround(1e-3);

/**
 * The formula in f64, and the error that moments.wasm.ts derives, in units of 2^-24: of a difference 1 of itself and 1
 * of the mean, half of what v is off by (42), 1 for the root, 3 for products and the sum.
 */
function reference(kind: NormalizeKind, { rows, size, x, weight, bias }: Data) {
  const output: Expected[] = [];
  const mean: Expected[] = [];
  const inverse: Expected[] = [];
  for (let row = 0; row < rows; row++) {
    const own = x.subarray(row * size, (row + 1) * size);
    const middle = kind === "layer" ? own.reduce((a, b) => a + b, 0) / size : 0;
    const square = own.reduce((sum, value) => sum + (value - middle) ** 2, 0) / size;
    const factor = 1 / Math.sqrt(square + epsilon);
    mean.push({ value: middle, bound: 2 ** -24 * Math.abs(middle) + 2 ** -22 * Math.sqrt(square) });
    inverse.push({ value: factor, bound: 22 * 2 ** -24 * factor });
    for (let i = 0; i < size; i++) {
      const scaled = (own[i]! - middle) * factor * (weight?.[i] ?? 1);
      const value = scaled + (bias?.[i] ?? 0);
      const ofMean = (Math.abs(middle) + 4 * Math.sqrt(square)) * factor * Math.abs(weight?.[i] ?? 1);
      const units = 26 * Math.abs(scaled) + ofMean + Math.abs(value);
      output.push({ value, bound: units * 2 ** -24 });
    }
  }
  return { output, mean, inverse };
}

function check(got: Float32Array, expected: readonly Expected[], dtype: FloatType, label: string): void {
  expect(got.length).to.equal(expected.length);
  for (const [i, { value, bound }] of expected.entries())
    if (!(Math.abs(got[i]! - value) <= bound + types[dtype].rounding(value)))
      expect.fail(`${label}: element ${i} of ${expected.length} is ${got[i]}, not ${value}`);
}

/** Rows of several heights and spreads; the first elements of some are far from the others. */
function samples(dtype: FloatType, rows: number, size: number): Data {
  const random = randomNumbers(rows * 7 + size);
  const numbers = (count: number, number: (i: number) => number) =>
    asStored(
      dtype,
      Float32Array.from({ length: count }, (_, i) => number(i)),
    );
  const x = numbers(rows * size, (at) => {
    const row = Math.floor(at / size);
    const outlier = row % 4 === 3 && at % size < 4 ? 300 : 0;
    return (random() - 0.5) * [4, 30, 1, 2][row % 4]! + [0, 50, -900][row % 3]! + outlier;
  });
  return {
    ...{ rows, size, x },
    weight: size % 2 === 1 || size > 64 ? numbers(size, () => random() * 2 - 1) : undefined,
    bias: size % 3 !== 1 ? numbers(size, () => random() * 4 - 2) : undefined,
  };
}

/** [rows, size] */
const shapes: readonly (readonly [number, number])[] = [
  ...[1, 2, 3, 4, 5, 8, 15, 16, 17, 63, 64, 65].map((size) => [7, size] as const),
  ...[255, 256, 257, 271, 272, 1023, 4097].map((size) => [4, size] as const),
  ...([
    [3, 16_384],
    [3, 16_385],
    [2, 32_768],
    [2, 32_769],
    [2, 70_001],
    [3000, 5],
  ] as const),
];

describeEitherWay("normalize kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(normalize.kernels, { ...options, pages: 2048, workers: 3 });
  });

  const run = (kind: NormalizeKind, dtype: FloatType, data: Data, inPlace = false) => {
    const { rows, size, x } = data;
    const [output, mean, inverse] = [
      guardedOutput(bench, dtype, x.length),
      guardedOutput(bench, "f32", rows),
      guardedOutput(bench, "f32", rows),
    ];
    let input = uploadElements(bench, dtype, x);
    if (inPlace) {
      const { memory, byteOffset } = output.region;
      const from = input.memory.byteOffset + input.byteOffset;
      const bytes = new Uint8Array(bench.memory.buffer);
      bytes.copyWithin(memory.byteOffset + byteOffset, from, from + input.byteLength);
      input = output.region;
    }
    const weight = data.weight && uploadElements(bench, dtype, data.weight);
    const bias = data.bias && uploadElements(bench, dtype, data.bias);
    const stored = {
      mean: kind === "layer" ? mean.region : undefined,
      inverseDeviation: inverse.region,
    };
    const operands = { input, weight, bias, output: output.region, ...stored };
    bench.run(normalize.plan({ kind, dtype, rows, size, epsilon, ...operands }, bench.context));
    return { output: output.read(), mean: mean.read(), inverse: inverse.read() };
  };

  for (const [rows, size] of shapes)
    it(`of ${rows} x ${size}, beside the input and in place`, () => {
      for (const dtype of floatTypes)
        for (const kind of normalizeKinds) {
          const data = samples(dtype, rows, size);
          const expected = reference(kind, data);
          const beside = run(kind, dtype, data);
          check(beside.output, expected.output, dtype, `${kind} ${dtype}`);
          check(beside.inverse, expected.inverse, "f32", `inverse deviation of ${kind} ${dtype}`);
          if (kind === "layer") check(beside.mean, expected.mean, "f32", `mean of ${dtype}`);
          const inPlace = run(kind, dtype, data, true);
          for (const name of ["output", "inverse"] as const)
            expect(inPlace[name].join(), `${name} in place`).to.equal(beside[name].join());
        }
    });

  it("reads rows again whose first elements are far from their mean", () => {
    for (const size of [40, 20_000, 40_000]) {
      const x = Float32Array.from({ length: size }, (_, i) => (i < 16 ? 1e6 : (i % 5) / 8));
      const data = { rows: 1, size, x, weight: undefined, bias: undefined };
      check(run("layer", "f32", data).output, reference("layer", data).output, "f32", `${size} elements`);
    }
  });
});

describe("normalize on threads", () => {
  async function results(threads: number): Promise<string> {
    const backend = createCpuBackend({ threads });
    await backend.init();
    const parts: string[] = [];
    for (const kind of normalizeKinds)
      for (const [rows, size] of [
        [3000, 90],
        [2, 60_001],
      ] as const) {
        const data = samples("f32", rows, size).x;
        const [input, output, inverseDeviation] = [data.length, data.length, rows].map((count) =>
          backend.alloc(4 * count),
        ) as [never, never, never];
        backend.copyHtoD(input, data);
        backend.normalize({ kind, rows, size, input, output, inverseDeviation });
        for (const [handle, count] of [
          [output, data.length],
          [inverseDeviation, rows],
        ] as const) {
          const bytes = Buffer.alloc(4 * count);
          await backend.copyDtoH(bytes, handle);
          parts.push(bytes.toString("base64"));
        }
      }
    await backend.dispose();
    return parts.join();
  }

  it("gives the same bits with 0 and 2 threads", async () => {
    expect((await results(0)) === (await results(2))).to.equal(true);
  });
});
