import { type FloatType, floatTypes, type SoftmaxKind, softmaxKinds } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import {
  axisOf,
  dataSeed,
  distribution,
  fixedPlacement,
  oddPlacement,
  placement,
  shapesUpTo,
} from "../../arbitraries/shapes.js";
import { type Distribution, draw, drawIntegers, roundTo } from "../../data.js";
import { floatFormats } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import { kindLaw } from "../../kit/kind-law.js";
import { around, product } from "../../kit/shapes.js";
import { compute, expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import type { Tolerance } from "../../tolerance.js";
import { collect, type Expected, execute, measure, type Placement } from "../../workspace.js";
import { longRow, softmax, softmaxTolerance } from "./formula.js";

interface SoftmaxCase {
  readonly kind: SoftmaxKind;
  readonly shape: readonly number[];
  /** Null: not given, which means the last. */
  readonly axis: number | null;
  readonly data: Distribution;
  /** Multiplies the data, so that exponentials differ by more or less. */
  readonly spread: number;
  readonly placement: Placement;
  readonly seed: number;
}

type Plain = Pick<SoftmaxCase, "kind" | "shape" | "axis">;

function softmaxCase(plain: Plain): SoftmaxCase {
  return { data: "normal", spread: 1, placement: fixedPlacement, seed: 1, ...plain };
}

/** What kernels may hold at once, in a cache, a workgroup or an invocation, and more; rows that share words. */
const largeShapes: readonly Pick<SoftmaxCase, "shape" | "axis">[] = [
  { shape: [3, 1023], axis: null },
  { shape: [2, 4097], axis: null },
  { shape: [2, 20_000], axis: -1 },
  { shape: [70_001], axis: null },
  { shape: [2001, 33], axis: 1 },
  { shape: [1, 300, 260], axis: 1 },
  { shape: [2, 1031, 19], axis: -2 },
  { shape: [33_000, 3], axis: 0 },
  { shape: [40, 1025], axis: 0 },
  { shape: [5, 3, 129, 2, 17], axis: 2 },
  { shape: [5000, 7], axis: 1 },
];

/** Elements that one random case may have. */
const work = 2 ** 14;

function cases(
  kinds: readonly SoftmaxKind[],
  places: Arbitrary<Placement> = placement,
): Arbitrary<SoftmaxCase> {
  return shapesUpTo(work).chain((shape) =>
    fc.record({
      kind: fc.constantFrom(...kinds),
      shape: fc.constant(shape),
      axis: axisOf(shape),
      data: distribution,
      spread: fc.constantFrom(1, 4, 16),
      placement: places,
      seed: dataSeed,
    }),
  );
}

function floats({ shape, data, spread, seed }: SoftmaxCase, dtype: FloatType): Float64Array {
  const count = product(shape);
  return draw(data, count, seed, dtype).map((x) => roundTo(dtype, spread * x));
}

/** The results of a call, and row by row those of the formula. */
async function resultsOf(
  context: LawContext,
  dtype: FloatType,
  value: SoftmaxCase,
  input: Float64Array,
): Promise<{ readonly got: Float64Array; readonly expected: Expected }> {
  const { kind, shape, axis } = value;
  const { outer, length, inner } = around(value);
  const expected = collect((emit) => softmax({ kind, outer, length, inner }, input, emit));
  const got = await execute({
    ...{ backend: context.backend, dtype, placement: value.placement },
    ...{ output: "output", written: expected.places },
    operands: { input, output: new Float64Array(input.length).fill(Number.NaN) },
    call: (slices) =>
      context.backend.softmax({
        ...{ ...slices, kind, shape },
        ...(axis === null ? {} : { axis }),
        ...given(dtype),
      }),
  });
  return { got, expected };
}

async function check(
  context: LawContext,
  dtype: FloatType,
  value: SoftmaxCase,
  input: Float64Array = floats(value, dtype),
  special?: Tolerance,
): Promise<void> {
  const { outer, length, inner } = around(value);
  const { got, expected } = await resultsOf(context, dtype, value, input);
  const tolerance = special ?? softmaxTolerance(value.kind, length, dtype, context.numerics);
  measure(context, [length, outer * inner], got, expected, tolerance);
}

/** The weights of a row sum to 1: the exact ones do, and the sum may be off by as much as all of them together. */
async function checkSums(context: LawContext, dtype: FloatType, value: SoftmaxCase): Promise<void> {
  const { outer, length, inner } = around(value);
  if (length === 0) return;
  const { got, expected } = await resultsOf(context, dtype, value, floats(value, dtype));
  const tolerance = softmaxTolerance(value.kind, length, dtype, context.numerics);
  const sums = new Float64Array(outer * inner);
  const bounds = new Array<number>(sums.length).fill(0);
  for (const [i, place] of expected.places.entries()) {
    const row = Math.floor(i / length);
    sums[row]! += got[place]!;
    bounds[row]! += tolerance(expected.values[i]!, expected.magnitudes[i]!);
  }
  const exact = { places: [...sums.keys()], values: bounds.map(() => 1), magnitudes: bounds };
  measure(context, [length, sums.length], sums, exact, (_, bound) => bound);
}

export const softmaxLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = kindLaw<SoftmaxKind>("softmax", dtype);
  const ofEach = (name: string, run: (context: LawContext, kind: SoftmaxKind) => Promise<void>) =>
    softmaxKinds.map((kind) => law(`${kind}: ${name}`, kind, (context) => run(context, kind)));
  return [
    ...ofEach("stays within the error bound", (context, kind) =>
      context.forAll(cases([kind]), (value) => check(context, dtype, value), { runs: 2 }),
    ),
    ...ofEach("stays within it on larger shapes", (context, kind) =>
      context.forEach(largeShapes, (plain) => check(context, dtype, softmaxCase({ kind, ...plain })), {
        quick: 4,
      }),
    ),
    law("softmax: sums to 1 along the axis", "softmax", (context) =>
      context.forAll(cases(["softmax"]), (value) => checkSums(context, dtype, value)),
    ),
    ...ofEach("depends on differences alone, whatever the height of a row", (context, kind) =>
      context.forEach(
        shiftedShapes,
        (plain) => {
          const value = softmaxCase({ kind, ...plain });
          return check(context, dtype, value, shifted(value, dtype));
        },
        { quick: 2 },
      ),
    ),
    ...ofEach("takes elements far below the others", (context, kind) =>
      context.forEach(
        shiftedShapes,
        (plain) => {
          const value = softmaxCase({ kind, ...plain });
          return check(context, dtype, value, masked(value, dtype));
        },
        { quick: 2 },
      ),
    ),
    ...ofEach("stays accurate over many elements", (context, kind) =>
      context.forEach(
        [softmaxCase({ kind, shape: [long], axis: null }), softmaxCase({ kind, shape: [long, 2], axis: 0 })],
        (value) => {
          const tolerance = longRow(kind, long, dtype, context.numerics);
          return check(context, dtype, value, equals(value, dtype), tolerance);
        },
        { quick: 1 },
      ),
    ),
    law("touches nothing but the elements of its output", undefined, (context) => {
      const kinds = softmaxKinds.filter((kind) => context.backend.supports("softmax", { dtype, kind }));
      return context.forAll(cases(kinds, oddPlacement), (value) => check(context, dtype, value));
    }),
  ];
}

const shiftedShapes: readonly Pick<SoftmaxCase, "shape" | "axis">[] = [
  { shape: [40, 67], axis: 1 },
  { shape: [67, 40], axis: 0 },
  { shape: [6, 9000], axis: 1 },
  { shape: [9000, 6], axis: 0 },
];

/** How far rows are from 0, with halves between whole numbers still exact. */
const heights: Readonly<Record<FloatType, number>> = { f32: 2 ** 20, f16: 2 ** 9 };

/** The row of each element. */
function rowOf(value: SoftmaxCase): (at: number) => number {
  const { length, inner } = around(value);
  return (at) => Math.floor(at / inner / length) * inner + (at % inner);
}

/** Halves up to 8, with rows high above 0, far below it, and at it. */
function shifted(value: SoftmaxCase, dtype: FloatType): Float64Array {
  const row = rowOf(value);
  const count = product(value.shape);
  return drawIntegers(16, count, value.seed).map((x, at) => x / 2 + ((row(at) % 3) - 1) * heights[dtype]);
}

/** Every third element is as far below the others as a mask puts it, in some rows all but one. */
function masked(value: SoftmaxCase, dtype: FloatType): Float64Array {
  const row = rowOf(value);
  const { length, inner } = around(value);
  const lowest = roundTo(dtype, -floatFormats[dtype].largest / 4);
  return floats(value, dtype).map((x, at) => {
    const j = Math.floor(at / inner) % length;
    const isMasked = row(at) % 4 === 1 ? j !== (row(at) * 7) % length : j % 3 === 1;
    return isMasked ? lowest : x;
  });
}

/** Elements of a long row. */
const long = 2 ** 20 + 1;

/** One element above many equal ones, for which the rounding errors of a running sum have the same sign. */
function equals(value: SoftmaxCase, dtype: FloatType): Float64Array {
  const below = roundTo(dtype, -2.3);
  const { inner } = around(value);
  return new Float64Array(product(value.shape)).map((_, at) => (at < inner ? 0 : below));
}

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** Laws on numbers that not every backend keeps: NaN and infinities. */
export function specialValues(dtype: FloatType): readonly Law[] {
  /** Checks a row alone, among others, and along another axis. */
  const expectRow = async (
    { backend }: LawContext,
    kind: SoftmaxKind,
    row: readonly number[],
    expected: readonly number[],
  ): Promise<void> => {
    if (!backend.supports("softmax", { dtype, kind })) return;
    const n = row.length;
    // The other rows are of zeros.
    const other = kind === "softmax" ? roundTo(dtype, 1 / n) : roundTo(dtype, -Math.log(n));
    for (const [shape, axis, at] of [
      [[n], 0, (j: number) => j],
      [[3, n], 1, (j: number) => n + j],
      [[n, 3], 0, (j: number) => 3 * j + 1],
    ] as const) {
      const count = shape.reduce<number>((a, b) => a * b, 1);
      const input = new Array<number>(count).fill(0);
      for (const [j, x] of row.entries()) input[at(j)] = x;
      const got = await compute(backend, dtype, [input], count, ([x], output) =>
        backend.softmax({ kind, shape, axis, input: x!, output, dtype }),
      );
      // Either zero will do.
      const own = row.map((_, j) => got[at(j)]! + 0);
      expectSame(
        `${kind} of ${row.slice(0, 4).join(", ")}, ... along axis ${axis} of [${shape}]`,
        own,
        expected,
      );
      const isOwn = new Set(row.map((_, j) => at(j)));
      const wrong = got.findIndex(
        (y, i) => !isOwn.has(i) && !(Math.abs(y - other) <= 2 ** -9 * Math.abs(other)),
      );
      if (wrong >= 0)
        throw new Error(`${kind}: result ${wrong} of another row is ${got[wrong]}, not ${other}`);
    }
  };
  return [
    numericsLaw(
      dtype,
      "softmax",
      "makes a row with a NaN NaN, and no other",
      kept("nan"),
      async (context) => {
        for (const kind of softmaxKinds)
          for (const [n, place] of [
            [1, 0],
            [5, 4],
            [41, 0],
            [41, 16],
            [41, 40],
          ] as const)
            await expectRow(
              context,
              kind,
              new Array<number>(n).fill(1).with(place, nan),
              new Array(n).fill(nan),
            );
      },
    ),
    numericsLaw(dtype, "softmax", "takes -Infinity for weight 0", kept("infinity"), async (context) => {
      for (const n of [2, 5, 41, 300]) {
        const row = new Array<number>(n).fill(-infinity).with(n >> 1, -3);
        await expectRow(context, "softmax", row, new Array(n).fill(0).with(n >> 1, 1));
        await expectRow(context, "logSoftmax", row, new Array(n).fill(-infinity).with(n >> 1, 0));
      }
    }),
    numericsLaw(
      dtype,
      "softmax",
      "has no result for +Infinity, or for nothing but -Infinity",
      kept("infinity"),
      async (context) => {
        for (const kind of softmaxKinds)
          for (const n of [1, 5, 41]) {
            await expectRow(
              context,
              kind,
              new Array<number>(n).fill(1).with(n - 1, infinity),
              new Array(n).fill(nan),
            );
            await expectRow(context, kind, new Array<number>(n).fill(-infinity), new Array(n).fill(nan));
          }
      },
    ),
  ];
}
