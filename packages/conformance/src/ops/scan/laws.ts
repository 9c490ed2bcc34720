import {
  elementTypes,
  type FloatType,
  floatTypes,
  type IntegerType,
  integerTypes,
  type ScanKind,
  scanKinds,
} from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import {
  axisOf,
  dataSeed,
  fixedPlacement,
  oddPlacement,
  placement,
  shapesUpTo,
} from "../../arbitraries/shapes.js";
import { random, roundTo } from "../../data.js";
import { encoded } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import { bytesOf, correctlyRounded, sameBytes, withAllocations } from "../../kit/checks.js";
import { lawsOnKinds } from "../../kit/kinds.js";
import { around, product } from "../../kit/shapes.js";
import { compute, expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { exact, type Tolerance } from "../../tolerance.js";
import { collect, execute, measure, type Placement } from "../../workspace.js";
import { longSum, reduction } from "../reduce/tolerance.js";
import { allowedOf, scan } from "./formula.js";

type ElementType = FloatType | IntegerType;

/** `many`: of all sizes. `whole`: numbers whose results are exact. */
type Data = "many" | "whole";

interface ScanCase {
  readonly kind: ScanKind;
  readonly shape: readonly number[];
  /** Null: not given, which means the last. */
  readonly axis: number | null;
  /** Null: not given, which means false. */
  readonly exclusive: boolean | null;
  readonly reverse: boolean | null;
  readonly data: Data;
  readonly placement: Placement;
  readonly seed: number;
}

type Plain = Pick<ScanCase, "shape" | "axis">;

/** What kernels may hold at once, or cut, and more; rows that share words; rows that begin anywhere. */
const largeShapes: readonly Plain[] = [
  { shape: [2, 20_000], axis: -1 },
  { shape: [3, 700, 68], axis: 1 },
  { shape: [301, 33], axis: 1 },
  { shape: [1031, 19, 2], axis: 0 },
  { shape: [70_001], axis: null },
  { shape: [5, 1024], axis: null },
  { shape: [9000, 3], axis: 0 },
  { shape: [7, 4097], axis: 1 },
  { shape: [2500, 7], axis: 1 },
  { shape: [1, 300, 260], axis: 1 },
  { shape: [2, 3, 5, 1, 129, 2, 1, 17], axis: 4 },
];

const directions = [
  { exclusive: null, reverse: null },
  { exclusive: true, reverse: null },
  { exclusive: false, reverse: true },
  { exclusive: true, reverse: true },
] as const;

/** Elements that one random case may have. */
const work = 2 ** 13;

function cases(
  kinds: readonly ScanKind[],
  places: Arbitrary<Placement>,
  data: readonly Data[],
): Arbitrary<ScanCase> {
  const flag = fc.constantFrom(true, false, null);
  return shapesUpTo(work).chain((shape) =>
    fc.record({
      kind: fc.constantFrom(...kinds),
      shape: fc.constant(shape),
      axis: axisOf(shape),
      ...{ exclusive: flag, reverse: flag },
      data: fc.constantFrom(...data),
      placement: places,
      seed: dataSeed,
    }),
  );
}

function elements(value: ScanCase, dtype: ElementType): Float64Array {
  const next = random(value.seed);
  const { range } = elementTypes[dtype];
  const count = product(value.shape);
  if (range !== undefined) {
    const [least, most] = range;
    // Products of odd numbers never become 0.
    const odd = value.kind === "prod" && value.data === "whole";
    return new Float64Array(count).map(() => {
      const x = Math.floor(least + next() * (most - least + 1));
      return odd && x % 2 === 0 ? x + 1 : x;
    });
  }
  const type = dtype as FloatType;
  if (value.kind === "prod") return factors(value, type, next);
  if (value.data === "whole") return new Float64Array(count).map(() => Math.floor(7 * next()) - 3);
  return new Float64Array(count).map(() => roundTo(type, 2 * next() - 1));
}

/** Factors from 1/2 to 2 of either sign, such that the products of any neighbours along the axis are moderate. */
function factors(value: ScanCase, dtype: FloatType, next: () => number): Float64Array {
  const { outer, length, inner } = around(value);
  const all = new Float64Array(outer * length * inner);
  for (let row = 0; row < outer * inner; row++) {
    let product = 1;
    for (let j = 0; j < length; j++) {
      const up = product > 8 ? false : product < 1 / 8 ? true : next() < 0.5;
      const size = value.data === "whole" ? Math.floor(2 * next()) : next();
      const x = roundTo(dtype, (next() < 0.5 ? -1 : 1) * 2 ** (up ? size : -size));
      product *= Math.abs(x);
      all[(Math.floor(row / inner) * length + j) * inner + (row % inner)] = x;
    }
  }
  return all;
}

async function check(
  context: LawContext,
  dtype: ElementType,
  value: ScanCase,
  input: Float64Array = elements(value, dtype),
  tolerance?: Tolerance,
): Promise<void> {
  const { kind, shape, axis, placement, data } = value;
  const [exclusive, reverse] = [value.exclusive ?? false, value.reverse ?? false];
  const problem = { dtype, kind, ...around(value), exclusive, reverse };
  const expected = collect((emit) => scan(problem, input, emit));
  const got = await execute({
    ...{ backend: context.backend, dtype, placement },
    ...{ output: "output", written: expected.places },
    operands: { input, output: new Float64Array(input.length).fill(Number.NaN) },
    call: (slices) =>
      context.backend.scan({
        ...{ ...slices, kind, shape },
        ...(axis === null ? {} : { axis }),
        ...(value.exclusive === null ? {} : { exclusive }),
        ...(value.reverse === null ? {} : { reverse }),
        ...given(dtype),
      }),
  });
  const usual =
    data === "whole" && elementTypes[dtype].range === undefined
      ? exact(dtype as FloatType)
      : allowedOf(problem, context.numerics);
  measure(context, [problem.length, problem.outer * problem.inner], got, expected, tolerance ?? usual);
}

/** Each of the larger shapes, in one direction after another. */
const larger = (kind: ScanKind, data: Data, first: number): readonly ScanCase[] =>
  largeShapes.map((plain, seed) => ({
    ...{ ...plain, kind, data, seed, placement: fixedPlacement },
    ...directions[(seed + first) % directions.length]!,
  }));

/** The last result of each row, or the first in reverse, is that of reduce. */
async function expectTotals({ backend }: LawContext, dtype: ElementType, kind: ScanKind): Promise<void> {
  if (!backend.supports("reduce", { dtype, kind })) return;
  const { bytes: size } = elementTypes[dtype];
  const [rows, length] = [7, 1501];
  const value = { kind, shape: [rows, length], axis: 1, data: "whole", seed: 7 } as const;
  const content = encoded(
    elements({ ...value, exclusive: null, reverse: null, placement: fixedPlacement }, dtype),
    dtype,
  );
  await withAllocations(
    backend,
    [content.length, content.length, size * rows],
    async (input, output, totals) => {
      backend.copyHtoD(input, content);
      backend.reduce({ kind, shape: [rows, length], axes: [1], input, output: totals, ...given(dtype) });
      const expected = await bytesOf(backend, totals, size * rows);
      for (const reverse of [false, true]) {
        backend.scan({ kind, shape: [rows, length], reverse, input, output, ...given(dtype) });
        const all = await bytesOf(backend, output, content.length);
        const last = Uint8Array.from({ length: size * rows }, (_, i) => {
          const place = Math.floor(i / size) * length + (reverse ? 0 : length - 1);
          return all[place * size + (i % size)]!;
        });
        sameBytes(
          last,
          expected,
          `the ${reverse ? "first" : "last"} results of ${kind}, and those of reduce`,
        );
      }
    },
  );
}

/** Terms that f32 and f16 do not hold exactly, and so many that a running sum loses them. */
const longest: Readonly<Record<FloatType, { readonly term: number; readonly count: number }>> = {
  f32: { term: 0.1, count: 2 ** 20 },
  f16: { term: 0.06, count: 2 ** 19 },
};

async function expectLongSums(context: LawContext, dtype: FloatType): Promise<void> {
  const { term, count } = longest[dtype];
  const input = new Float64Array(count).fill(roundTo(dtype, term));
  const sum = longSum("sum", count);
  const once = reduction("sum", 2, dtype, context.numerics);
  await context.forEach(
    [
      { shape: [count], axis: 0, exclusive: null, reverse: null },
      { shape: [count / 2, 2], axis: 0, exclusive: null, reverse: true },
    ].map(
      (plain): ScanCase => ({
        ...{ ...plain, kind: "sum", data: "many", seed: 0, placement: fixedPlacement },
      }),
    ),
    (value) =>
      check(context, dtype, value, input, (result, magnitude) => sum(result, magnitude) + once(result, 0)),
    { quick: 1 },
  );
}

export const scanLaws: readonly Law[] = [...floatTypes, ...integerTypes].flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: ElementType): readonly Law[] {
  const { having, law } = lawsOnKinds("scan", dtype, scanKinds);
  const isFloat = elementTypes[dtype].range === undefined;
  return [
    ...scanKinds.flatMap((kind, first) => [
      law(`${kind}: matches the formula`, [kind], (context) =>
        context.forAll(cases([kind], placement, ["many"]), (value) => check(context, dtype, value)),
      ),
      law(`${kind}: matches it on larger shapes`, [kind], (context) =>
        context.forEach(larger(kind, "many", first), (value) => check(context, dtype, value), { quick: 4 }),
      ),
    ]),
    law("is exact on whole numbers", scanKinds, (context) =>
      context.forAll(cases(having(context), placement, ["whole"]), (value) => check(context, dtype, value)),
    ),
    law("is exact on larger shapes", scanKinds, (context) =>
      context.forEach(
        having(context).flatMap((kind, i) => larger(kind, "whole", i + 1)),
        (value) => check(context, dtype, value),
        { quick: 6 },
      ),
    ),
    law("ends with what reduce finds", scanKinds, async (context) => {
      for (const kind of having(context)) await expectTotals(context, dtype, kind);
    }),
    ...(isFloat
      ? [
          {
            ...law("sum: stays accurate over many elements", ["sum"], (context) =>
              expectLongSums(context, dtype as FloatType),
            ),
            ...correctlyRounded,
          },
        ]
      : []),
    law("touches nothing but the elements of its output", scanKinds, (context) =>
      context.forAll(cases(having(context), oddPlacement, ["many"]), (value) => check(context, dtype, value)),
    ),
  ];
}

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** Laws on NaN and infinities, which not every backend keeps. */
export function specialValues(dtype: FloatType): readonly Law[] {
  return [
    numericsLaw(dtype, "scan", "keeps NaN from its place on", kept("nan"), async ({ backend }) => {
      for (const kind of scanKinds) {
        if (!backend.supports("scan", { dtype, kind })) continue;
        for (const [length, place] of [
          [41, 0],
          [41, 16],
          [41, 40],
          [9001, 4500],
        ] as const) {
          const input = new Array<number>(length).fill(1).with(place, nan);
          for (const reverse of [false, true]) {
            const got = await compute(backend, dtype, [input], length, ([x], output) =>
              backend.scan({ kind: kind, shape: [length, 1], axis: 0, reverse, input: x!, output, dtype }),
            );
            const wrong = got.findIndex((x, j) => Number.isNaN(x) !== (reverse ? j <= place : j >= place));
            expectSame(`${kind} with NaN at ${place}, first wrong place`, [wrong], [-1]);
          }
        }
      }
    }),
    numericsLaw(
      dtype,
      "scan",
      "takes infinities, and begins with them",
      kept("infinity"),
      async (context) => {
        const input = [1, -infinity, 2, infinity, 3];
        const cases = [
          ["max", false, [1, 1, 2, infinity, infinity]],
          ["max", true, [-infinity, 1, 1, 2, infinity]],
          ["min", false, [1, -infinity, -infinity, -infinity, -infinity]],
          ["min", true, [infinity, 1, -infinity, -infinity, -infinity]],
          ["sum", false, [1, -infinity, -infinity, nan, nan]],
          ["prod", true, [1, 1, -infinity, -infinity, -infinity]],
        ] as const;
        for (const [kind, exclusive, expected] of cases) {
          if (!context.backend.supports("scan", { dtype, kind })) continue;
          const got = await compute(context.backend, dtype, [input], 5, ([x], output) =>
            context.backend.scan({ kind, shape: [5], exclusive, input: x!, output, dtype }),
          );
          expectSame(`${kind} of infinities`, got, expected);
        }
      },
    ),
  ];
}
