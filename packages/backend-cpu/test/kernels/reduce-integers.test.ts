// Tags: kernels, pure
import { type DeviceHandle, type IntegerType, integerTypes, type ReduceKind } from "@backplane/core";
import { expect } from "chai";
import { reduce } from "#src/kernels/reduce/reduce.js";
import { expectSameElements } from "../same-elements.js";
import { Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes, resolveProblem, runOperation, uploadBits } from "./problems.js";
import { keptPlaces, reductions } from "./shapes.js";

const handle = 1 as DeviceHandle;

type Integers = Int32Array | Uint32Array;

const arrays = { i32: Int32Array, u32: Uint32Array } as const;

function make(dtype: IntegerType, n: number, value: (i: number) => number): Integers {
  return arrays[dtype].from(Array.from({ length: n }, (_, i) => value(i)));
}

/** Storing the result into the array wraps it around. */
const folds = {
  sum: (a: number, b: number) => a + b,
  prod: Math.imul,
  max: Math.max,
  min: Math.min,
} as const;
const kinds = Object.keys(folds) as (keyof typeof folds)[];

describe("reduce kernels of integers", () => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(reduce.kernels, { pages: 512 });
  });

  const check = (
    kind: keyof typeof folds,
    dtype: IntegerType,
    shape: readonly number[],
    axes: readonly number[],
    data: Integers,
  ): void => {
    const count = shape.reduce((n, extent, axis) => (axes.includes(axis) ? n : n * extent), 1);
    const output = guardedBytes(bench, 4 * count, 4);
    const args = { kind, shape, axes, dtype, input: handle, output: handle };
    const regions = { input: uploadBits(bench, data), output: output.region };
    runOperation(bench, reduce, resolveProblem("reduce", args, regions));
    const got = new arrays[dtype](output.read());
    const expected = new arrays[dtype](count);
    const seen = new Uint8Array(count);
    const places = keptPlaces(shape, axes);
    data.forEach((x, i) => {
      const at = places[i]!;
      expected[at] = seen[at] ? folds[kind](expected[at]!, x) : x;
      seen[at] = 1;
    });
    expectSameElements(got, expected, `${kind} of ${dtype} [${shape}] over [${axes}]`);
  };

  /** Of all of the range: sums wrap around again and again. */
  const random = (dtype: IntegerType, n: number): Integers => {
    const next = randomNumbers(n);
    return make(dtype, n, () => next() * Number.MAX_SAFE_INTEGER);
  };

  it("takes sum, prod, max and min", () => {
    const taken = (dtype: IntegerType): readonly ReduceKind[] =>
      reduce.supports.flatMap((support) =>
        (support.dtype as readonly string[]).includes(dtype) ? (support.kind as ReduceKind[]) : [],
      );
    for (const dtype of integerTypes) expect(taken(dtype)).to.have.members(kinds);
  });

  for (const { shape, axes } of reductions)
    it(`over [${axes}] of [${shape}]`, () => {
      const n = shape.reduce((x, y) => x * y, 1);
      for (const dtype of integerTypes)
        for (const kind of kinds) check(kind, dtype, shape, axes, random(dtype, n));
    });

  it("does every length from 1 to 67, along rows and columns, with the extreme anywhere", () => {
    for (const dtype of integerTypes)
      for (let n = 1; n <= 67; n++) {
        const at = (5 * n) >> 3;
        for (const [kind, extreme] of [
          ["max", -1],
          ["min", -(2 ** 31)],
          ["sum", 2 ** 31 - 1],
        ] as const) {
          // -1 is the largest u32; all numbers lie beyond one end of what lanes without an element hold.
          const values = make(dtype, n, (i) => (kind === "max" ? -(2 ** 31) + i : i - 1));
          values[at] = extreme;
          check(kind, dtype, [n], [0], values);
          const wide = make(dtype, 3 * n, (i) => values[Math.floor(i / 3)]! + (i % 3));
          check(kind, dtype, [n, 3], [0], wide);
          check(kind, dtype, [3, n], [1], wide);
        }
      }
  });

  it("walks along more axes than a kernel has parameters for", () => {
    const shape = Array.from({ length: 18 }, () => 2);
    const even = shape.map((_, axis) => axis).filter((axis) => axis % 2 === 0);
    for (const dtype of integerTypes)
      for (const axes of [even, even.map((axis) => axis + 1)])
        for (const kind of kinds) check(kind, dtype, shape, axes, random(dtype, 2 ** 18));
  });
});
