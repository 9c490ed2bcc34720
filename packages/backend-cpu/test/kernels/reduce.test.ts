// Tags: kernels, pure, long
import {
  type DeviceHandle,
  type FloatType,
  float16FromBits,
  float16ToBits,
  type NumberReduceKind,
  numberReduceKinds,
} from "@backplane/core";
import { expect } from "chai";
import { planReduce, reduce } from "#src/kernels/reduce/reduce.js";
import { asStored } from "../types.js";
import { Workbench } from "../workbench.js";
import { randomNumbers, ulp32 } from "./numbers.js";
import { guardedOutput, resolveProblem, uploadElements } from "./problems.js";
import { keptPlaces, reductions } from "./shapes.js";

const handle = 1 as DeviceHandle;

/** ln(e^a + e^b) */
const addExponentials = (a: number, b: number): number => {
  const larger = Math.max(a, b);
  return larger + Math.log1p(Math.exp(Math.min(a, b) - larger));
};

const folds: Readonly<Record<NumberReduceKind, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  mean: (a, b) => a + b,
  max: Math.max,
  min: Math.min,
  prod: (a, b) => a * b,
  logSumExp: addExponentials,
};

describe("reduce kernels", () => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(reduce.kernels, { pages: 2048 });
  });

  const run = (
    kind: NumberReduceKind,
    dtype: FloatType,
    shape: readonly number[],
    axes: readonly number[],
    data: Float32Array,
  ): Float32Array => {
    const isReduced = shape.map((_, axis) => axes.includes(axis));
    const count = shape.reduce((n, extent, axis) => (isReduced[axis] ? n : n * extent), 1);
    const output = guardedOutput(bench, dtype, count);
    const regions = { input: uploadElements(bench, dtype, data), output: output.region };
    const problem = resolveProblem(
      "reduce",
      { kind, shape, axes, dtype, input: handle, output: handle },
      regions,
    );
    if (problem) bench.run(reduce.plan(problem, bench.context));
    return output.read();
  };

  /** Folds in f64, and |x| summed beside it. */
  const reference = (
    kind: NumberReduceKind,
    shape: readonly number[],
    axes: readonly number[],
    data: Float32Array,
  ) => {
    const count = shape.reduce((n, extent, axis) => (axes.includes(axis) ? n : n * extent), 1);
    const values = new Array<number | undefined>(count).fill(undefined);
    const places = keptPlaces(shape, axes);
    data.forEach((x, i) => {
      const at = places[i]!;
      const before = values[at];
      values[at] = before === undefined ? x : folds[kind](before, x);
    });
    const reduced = data.length / count;
    return values.map((value) => (kind === "mean" ? value! / reduced : value!));
  };

  const check = (
    kind: NumberReduceKind,
    dtype: FloatType,
    shape: readonly number[],
    axes: readonly number[],
  ): void => {
    const count = shape.reduce((n, extent) => n * extent, 1);
    const random = randomNumbers(count + shape.length);
    // Products stay near 1.
    const data = asStored(
      dtype,
      Float32Array.from({ length: count }, () =>
        kind === "prod" ? 1 + (random() - 0.5) / 64 : random() * 2 - 0.9,
      ),
    );
    const got = run(kind, dtype, shape, axes, data);
    const expected = reference(kind, shape, axes, data);
    const isSum = kind === "sum" || kind === "mean";
    const magnitudes = isSum ? reference(kind, shape, axes, data.map(Math.abs)) : undefined;
    expect(got.length).to.equal(expected.length);
    expected.forEach((value, i) => {
      const label = `${kind} ${dtype} [${shape}] over [${axes}] element ${i}: ${got[i]}, not ${value}`;
      // Eight vectors are added up in f32 with three roundings, or twelve, from columns, with four. The rest is
      // f64 inside, so one rounding; or two for f16, which may meet a tie.
      // Of a sum of exponentials, and of the few that it is multiplied by, what is relative becomes absolute.
      const error = kind === "logSumExp" ? 16 * 2 ** -24 : 4 * 2 ** -24 * (magnitudes?.[i] ?? 0);
      const checks: Readonly<Record<FloatType, () => void>> = {
        f32: () => expect(Math.abs(got[i]! - value), label).to.be.at.most(0.5001 * ulp32(value) + error),
        f16: () => {
          const neighbours = [-1, 0, 1].map((sign) =>
            float16FromBits(float16ToBits(Math.fround(value) + sign * (ulp32(value) + error))),
          );
          expect(neighbours, label).to.include(got[i]);
        },
      };
      checks[dtype]();
    });
  };

  for (const kind of numberReduceKinds)
    for (const { shape, axes } of reductions)
      it(`${kind} over [${axes}] of [${shape}]`, () => {
        check(kind, "f32", shape, axes);
        check(kind, "f16", shape, axes);
      });

  it("does every length from 1 to 67", () => {
    for (const kind of ["sum", "max"] as const)
      for (let n = 1; n <= 67; n++) {
        check(kind, "f32", [n], [0]);
        check(kind, "f16", [n], [0]);
        check(kind, "f32", [3, n], [0]);
        check(kind, "f16", [3, n], [0]);
      }
  });

  it("walks along more axes than a kernel has parameters for", () => {
    // Every other axis is reduced: a kernel walks along 6 of each sort, the others become commands.
    const rank = 20;
    const shape = Array.from({ length: rank }, () => 2);
    const even = shape.map((_, axis) => axis).filter((axis) => axis % 2 === 0);
    const odd = even.map((axis) => axis + 1);
    const data = Float32Array.from({ length: 2 ** rank }, (_, i) => (i * 7919) % 1021);
    for (const axes of [even, odd]) {
      const got = run("max", "f32", shape, axes, data);
      expect([...got]).to.deep.equal(reference("max", shape, axes, data));
      const sums = run("sum", "f32", shape, axes, data);
      expect([...sums]).to.deep.equal(reference("sum", shape, axes, data));
    }
  });

  it("sums 4 million times 0.1 as accurately as f32 can hold it", () => {
    const n = 4_000_000;
    const data = new Float32Array(n).fill(0.1);
    const exact = n * Math.fround(0.1);
    const [sum] = run("sum", "f32", [n], [0], data);
    expect(sum).to.equal(Math.fround(exact));
    const [mean] = run("mean", "f32", [n], [0], data);
    expect(mean).to.equal(Math.fround(0.1));
  });

  /** One result from some values, reduced along a row, down a column, and down one of several columns. */
  const everyWay = (kind: NumberReduceKind, values: readonly number[]): number[] => {
    const n = values.length;
    const row = run(kind, "f32", [n], [0], Float32Array.from(values));
    const columns = run(
      kind,
      "f32",
      [n, 3],
      [0],
      Float32Array.from(values.flatMap((value) => [0, value, 1])),
    );
    const rows = run(kind, "f32", [2, n], [1], Float32Array.from([...values.map(() => 1), ...values]));
    return [row[0]!, columns[1]!, rows[1]!];
  };
  const expectEveryWay = (kind: NumberReduceKind, values: readonly number[], expected: number): void => {
    for (const got of everyWay(kind, values))
      expect(Object.is(got, expected), `${kind} of ${values.length}: ${got}, not ${expected}`).to.equal(true);
  };
  // Around what rows and columns fold at once, and beyond.
  const lengths = [1, 2, 3, 5, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 131];
  /** Every third place or so. */
  const places = (n: number): number[] =>
    Array.from({ length: Math.ceil(n / 3) }, (_, i) => (7 * i + 2 * n) % n);

  it("keeps a NaN of either sign wherever it is", () => {
    const negative = new Float32Array(Uint32Array.of(0xffc00000).buffer)[0]!;
    for (const n of lengths)
      for (const at of places(n))
        for (const kind of numberReduceKinds)
          for (const nan of [Number.NaN, negative]) {
            const values = Array.from({ length: n }, (_, i) => i - 40);
            values[at] = nan;
            for (const got of everyWay(kind, values)) expect(got, `${kind} of ${n}, at ${at}`).to.be.NaN;
          }
  });

  it("keeps infinities", () => {
    const [above, below] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (const n of lengths) {
      expectEveryWay("max", new Array(n).fill(below), below);
      expectEveryWay("min", new Array(n).fill(above), above);
      if (n < 2) continue;
      const values = Array.from({ length: n }, (_, i) => 1 + (i % 7));
      values[n >> 1] = above;
      for (const kind of ["sum", "mean", "max", "prod"] as const) expectEveryWay(kind, values, above);
      values[0] = below;
      expectEveryWay("max", values, above);
      expectEveryWay("min", values, below);
      expectEveryWay("sum", values, Number.NaN);
    }
  });

  it("gives the sign of zero", () => {
    for (const n of lengths) {
      const negative = new Array<number>(n).fill(-0);
      for (const kind of ["sum", "max", "min"] as const) expectEveryWay(kind, negative, -0);
      for (const kind of ["max", "min"] as const) expectEveryWay(kind, new Array(n).fill(0), 0);
      if (n < 2) continue;
      for (const at of places(n)) {
        const mixed = negative.with(at, 0);
        expectEveryWay("max", mixed, 0);
        expectEveryWay("max", mixed.with((at + 1) % n, -3), 0);
        expectEveryWay("min", mixed, -0);
      }
    }
  });

  it("adds up numbers whose sum overflows f32 on the way, but not at the end", () => {
    const large = 3e38;
    for (const n of lengths.filter((length) => length >= 5)) {
      const values = Array.from({ length: n }, (_, i) => (i < n / 2 ? large : -large));
      if (n % 2 === 1) values[n >> 1] = 0;

      expectEveryWay("sum", values, 0);
      expectEveryWay("mean", new Array(n).fill(large), Math.fround(large));
    }
  });

  it("folds rows in parts side by side as it does one by one, whatever is in their neighbours", () => {
    const [rows, n] = [19, 527];
    expect(
      planReduce({
        kind: "sum",
        dtype: "f32",
        kept: [{ extent: rows, stride: n }],
        reduced: [{ extent: n, stride: 1 }],
      }),
    ).to.include({ streamed: true, placesPerChunk: 28 });
    const random = randomNumbers(5);
    const data = Float32Array.from({ length: rows * n }, () => 1 + (random() - 0.5) / 64);
    const hostile = data.slice();
    hostile[3 * n + 100] = Number.NaN;
    // Its sum in f32 overflows.
    for (let i = 0; i < n; i++) hostile[7 * n + i] = i === n - 1 ? 0 : i < n / 2 - 1 ? 3e38 : -3e38;
    hostile[8 * n + n - 1] = Number.POSITIVE_INFINITY;
    hostile.fill(-0, 18 * n);
    const expected: Readonly<Record<NumberReduceKind, readonly number[]>> = {
      sum: [Number.NaN, 0, Number.POSITIVE_INFINITY, -0],
      mean: [Number.NaN, 0, Number.POSITIVE_INFINITY, -0],
      max: [Number.NaN, Math.fround(3e38), Number.POSITIVE_INFINITY, -0],
      min: [Number.NaN, Math.fround(-3e38), Math.min(...data.subarray(8 * n, 9 * n - 1)), -0],
      prod: [Number.NaN, Number.NaN, Number.POSITIVE_INFINITY, -0],
      logSumExp: [Number.NaN, Math.fround(3e38), Number.POSITIVE_INFINITY, Math.fround(Math.log(n))],
    };
    for (const kind of numberReduceKinds) {
      const [plain, beside] = [data, hostile].map((values) => run(kind, "f32", [rows, n], [1], values));
      const wanted = plain!.slice();
      for (const [i, row] of [3, 7, 8, 18].entries()) wanted[row] = expected[kind][i]!;
      for (const [row, value] of wanted.entries())
        expect(
          Object.is(beside![row], value),
          `${kind} of row ${row}: ${beside![row]}, not ${value}`,
        ).to.equal(true);
    }
  });

  for (const axis of [0, 1])
    it(`reads nothing that is not there, over axis ${axis}`, () => {
      const shape = [9, 601];
      const count = 9 * 601;
      // The rows at the end of the memory, with a little room for the output before them.
      const next = bench.alloc(4).memory.byteOffset;
      bench.alloc(bench.memory.buffer.byteLength - next - 4 * count - 4096);
      const sums = run("sum", "f32", shape, [axis], new Float32Array(count).fill(1));
      expect([...sums]).to.deep.equal(new Array(shape[1 - axis]!).fill(shape[axis]));
    });

  it("splits long reductions into pieces, by the problem alone", () => {
    const plan = planReduce({
      kind: "sum",
      dtype: "f32",
      kept: [],
      reduced: [{ extent: 1_000_000, stride: 1 }],
    });
    expect(plan.form).to.equal("rows");
    expect(plan.pieces).to.be.greaterThan(16);
    const wide = planReduce({
      kind: "sum",
      dtype: "f32",
      kept: [{ extent: 100_000, stride: 1 }],
      reduced: [{ extent: 100, stride: 100_000 }],
    });
    expect(wide.pieces).to.equal(1);
  });
});
