import {
  type DeviceHandle,
  type DType,
  float16FromBits,
  float16ToBits,
  type ReduceKind,
  reduceKinds,
} from "@backplane/core";
import { expect } from "chai";
import { planReduce, reduce } from "#src/kernels/reduce/reduce.js";
import { Workbench } from "../workbench.js";
import { randomNumbers, ulp32 } from "./numbers.js";
import { asStored, guardedOutput, resolveProblem, uploadElements } from "./problems.js";

const handle = 1 as DeviceHandle;

const folds: Readonly<Record<ReduceKind, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  mean: (a, b) => a + b,
  max: Math.max,
  min: Math.min,
  prod: (a, b) => a * b,
};

describe("reduce kernels", () => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(reduce.kernels, { pages: 2048 });
  });

  const run = (
    kind: ReduceKind,
    dtype: DType,
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
    kind: ReduceKind,
    shape: readonly number[],
    axes: readonly number[],
    data: Float32Array,
  ) => {
    const count = shape.reduce((n, extent, axis) => (axes.includes(axis) ? n : n * extent), 1);
    const values = new Array<number | undefined>(count).fill(undefined);
    const steps: number[] = [];
    let step = 1;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      steps[axis] = axes.includes(axis) ? 0 : step;
      if (!axes.includes(axis)) step *= shape[axis]!;
    }
    data.forEach((x, place) => {
      let [rest, at] = [place, 0];
      for (let axis = shape.length - 1; axis >= 0; axis--) {
        at += (rest % shape[axis]!) * steps[axis]!;
        rest = Math.floor(rest / shape[axis]!);
      }
      const before = values[at];
      values[at] = before === undefined ? x : folds[kind](before, x);
    });
    const reduced = data.length / count;
    return values.map((value) => (kind === "mean" ? value! / reduced : value!));
  };

  const check = (kind: ReduceKind, dtype: DType, shape: readonly number[], axes: readonly number[]): void => {
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
    expect(got.length).to.equal(expected.length);
    expected.forEach((value, i) => {
      const label = `${kind} ${dtype} [${shape}] over [${axes}] element ${i}: ${got[i]}, not ${value}`;
      // f64 inside, so one rounding; or two for f16, which may meet a tie.
      if (dtype === "f32") expect(Math.abs(got[i]! - value), label).to.be.at.most(0.5001 * ulp32(value));
      else {
        const neighbours = [-1, 0, 1].map((ulps) =>
          float16FromBits(float16ToBits(Math.fround(value) + ulps * ulp32(value))),
        );
        expect(neighbours, label).to.include(got[i]);
      }
    });
  };

  const patterns: readonly { shape: readonly number[]; axes: readonly number[] }[] = [
    { shape: [], axes: [] },
    { shape: [1], axes: [0] },
    { shape: [5], axes: [] },
    { shape: [70000], axes: [0] },
    { shape: [7, 9], axes: [0] },
    { shape: [7, 9], axes: [1] },
    { shape: [7, 9], axes: [0, 1] },
    { shape: [3, 1100], axes: [0] },
    { shape: [1100, 3], axes: [0] },
    { shape: [1100, 3], axes: [1] },
    { shape: [40000, 2], axes: [0] },
    { shape: [2, 40000], axes: [1] },
    { shape: [20, 4, 30], axes: [1] },
    { shape: [20, 4, 30], axes: [0, 2] },
    { shape: [5, 3, 4, 7, 6], axes: [1, 3] },
    { shape: [5, 3, 4, 7, 6], axes: [0, 2, 4] },
    { shape: [3, 200, 2, 130], axes: [1, 3] },
    { shape: [200, 2, 130, 3], axes: [0, 2] },
    { shape: [2, 1, 3, 1, 5], axes: [1, 2] },
  ];
  for (const kind of reduceKinds)
    for (const { shape, axes } of patterns)
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
  }).timeout(60000);

  it("sums 4 million times 0.1 as accurately as f32 can hold it", () => {
    const n = 4_000_000;
    const data = new Float32Array(n).fill(0.1);
    const exact = n * Math.fround(0.1);
    const [sum] = run("sum", "f32", [n], [0], data);
    expect(sum).to.equal(Math.fround(exact));
    const [mean] = run("mean", "f32", [n], [0], data);
    expect(mean).to.equal(Math.fround(0.1));
  });

  it("keeps NaN, infinities and the sign of zero", () => {
    const one = (kind: ReduceKind, values: readonly number[]): number =>
      run(kind, "f32", [values.length], [0], Float32Array.from(values))[0]!;
    for (let n = 1; n < 40; n++)
      for (const kind of reduceKinds) {
        const values = Array.from({ length: n }, (_, i) => i);
        values[(n * 7) % n] = Number.NaN;
        expect(one(kind, values), `${kind} of ${n}`).to.be.NaN;
        const columns = run(kind, "f32", [3, n], [0], Float32Array.from([...values, ...values, ...values]));
        expect([...columns].map(Number.isNaN)).to.deep.equal(values.map(Number.isNaN));
      }
    expect(one("max", [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY])).to.equal(
      Number.NEGATIVE_INFINITY,
    );
    expect(one("sum", [Number.POSITIVE_INFINITY, 1])).to.equal(Number.POSITIVE_INFINITY);
    expect(one("sum", [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])).to.be.NaN;
    expect(Object.is(one("sum", [-0, -0]), -0)).to.equal(true);
    expect(Object.is(one("max", [-0, 0]), 0)).to.equal(true);
    expect(Object.is(one("min", [0, -0]), -0)).to.equal(true);
  });

  it("splits long reductions into pieces, by the problem alone", () => {
    const plan = planReduce({ kept: [], reduced: [{ extent: 1_000_000, stride: 1 }] });
    expect(plan.form).to.equal("rows");
    expect(plan.pieces).to.be.greaterThan(16);
    const wide = planReduce({
      kept: [{ extent: 100_000, stride: 1 }],
      reduced: [{ extent: 100, stride: 100_000 }],
    });
    expect(wide.pieces).to.equal(1);
  });
});
