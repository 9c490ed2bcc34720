import {
  type Axis,
  type FloatType,
  floatTypes,
  identityOf,
  numberReduceKinds,
  type ReducedType,
  type ReduceKind,
  reduceIdentity,
} from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import {
  dataSeed,
  distribution,
  extent,
  fixedPlacement,
  oddPlacement,
  placement,
} from "../../arbitraries/shapes.js";
import { type Distribution, draw, drawIntegers, random, roundTo } from "../../data.js";
import { floatFormats } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import { kindLaw } from "../../kit/kind-law.js";
import { contiguousStrides, product } from "../../kit/shapes.js";
import type { Law, LawContext } from "../../law.js";
import { exact, type Tolerance } from "../../tolerance.js";
import { collect, type Expected, execute, measure, type Placement } from "../../workspace.js";
import { reduce } from "./formula.js";
import { longSum, reduction } from "./tolerance.js";

export interface ReduceCase {
  readonly kind: ReduceKind;
  readonly shape: readonly number[];
  /** Null: not given, which means all. Negative ones count from the last. */
  readonly axes: readonly number[] | null;
  /** Signs of the data. All negative shows a maximum that starts at 0. */
  readonly signs: "mixed" | "positive" | "negative";
  readonly data: Distribution;
  readonly placement: Placement;
  readonly seed: number;
}

export function reduceCase(
  parts: Partial<ReduceCase> & Pick<ReduceCase, "kind" | "shape" | "axes">,
): ReduceCase {
  return { signs: "mixed", data: "normal", placement: fixedPlacement, seed: 1, ...parts };
}

export const largeShapes: readonly Pick<ReduceCase, "shape" | "axes">[] = [
  { shape: [2 ** 18 + 3], axes: null },
  { shape: [700, 500], axes: [0] },
  { shape: [700, 500], axes: [1] },
  { shape: [3, 65_537], axes: [1] },
  { shape: [65_537, 3], axes: [0] },
  { shape: [3, 65_537], axes: [0] },
  { shape: [65_537, 3], axes: [-1] },
  { shape: [7, 1025, 33], axes: [1] },
  { shape: [33, 17, 257], axes: [0, 2] },
  { shape: [130, 2, 517], axes: [0, 2] },
  { shape: [129, 3, 300], axes: [0] },
  { shape: [257, 256], axes: null },
  { shape: [5, 3, 129, 2, 17], axes: [1, 3] },
];

/** More axes, kept and reduced in turn, than a kernel has loops. */
export const manyAxes: readonly Pick<ReduceCase, "shape" | "axes">[] = [
  { shape: [2, 3, 2, 2, 3, 2, 2], axes: [0, 2, 4, 6] },
  { shape: [3, 2, 2, 2, 1, 2, 3, 2, 2], axes: [1, 3, 5, 7] },
  { shape: [2, 2, 2, 3, 2, 2, 2, 2, 2, 2, 2, 3], axes: [0, 2, 4, 6, 8, 10] },
  { shape: [2, 2, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3], axes: [1, 3, 5, 7, 9, 11] },
  { shape: new Array<number>(15).fill(2), axes: [0, 2, 4, 6, 8, 10, 12, 14] },
];

/** Elements that one random case may have. */
const work = 2 ** 15;

export interface CaseOptions {
  readonly kinds?: readonly ReduceKind[];
  readonly extents?: Arbitrary<number>;
  readonly placement?: Arbitrary<Placement>;
}

export function cases(options: CaseOptions = {}): Arbitrary<ReduceCase> {
  const extents = options.extents ?? fc.oneof(extent(9), extent(17), extent());
  const axis = fc.tuple(extents, fc.constantFrom("kept", "reduced", "reduced from the end"));
  return fc
    .oneof(
      { weight: 1, arbitrary: fc.array(axis, { maxLength: 2 }) },
      { weight: 2, arbitrary: fc.array(axis, { minLength: 3, maxLength: 5 }) },
    )
    .chain((axes) =>
      fc.record({
        kind: fc.constantFrom(...(options.kinds ?? numberReduceKinds)),
        shape: fc.constant(axes.map(([size]) => size)),
        axes: fc.oneof(
          { weight: 4, arbitrary: fc.constant(chosenAxes(axes.map(([, role]) => role))) },
          { weight: 1, arbitrary: fc.constant(null) },
        ),
        signs: fc.constantFrom("mixed" as const, "positive" as const, "negative" as const),
        data: distribution,
        placement: options.placement ?? placement,
        seed: dataSeed,
      }),
    )
    .filter((value) => product(value.shape) <= work);
}

function chosenAxes(roles: readonly string[]): number[] {
  const axes = roles.flatMap((role, axis) => {
    if (role === "kept") return [];
    return role === "reduced" ? axis : axis - roles.length;
  });
  // The order of the axes in the list has no meaning.
  return axes.length % 2 === 0 ? axes : axes.reverse();
}

/** Kept and reduced axes, not merged. Computed here, independently of the code under test. */
function axesOf(value: ReduceCase): { readonly kept: Axis[]; readonly reduced: Axis[] } {
  const { shape, axes } = value;
  const chosen = new Set((axes ?? [...shape.keys()]).map((axis) => (axis < 0 ? axis + shape.length : axis)));
  const kept: Axis[] = [];
  const reduced: Axis[] = [];
  for (const [axis, stride] of contiguousStrides(shape).entries())
    (chosen.has(axis) ? reduced : kept).push({ extent: shape[axis]!, stride });
  return { kept, reduced };
}

const extentOf = (axes: readonly Axis[]): number => axes.reduce((count, axis) => count * axis.extent, 1);

/** The results of a case, or the elements that go into each. */
export function countOf(value: ReduceCase, axes: "kept" | "reduced"): number {
  return extentOf(axesOf(value)[axes]);
}

export function expectedOf(dtype: ReducedType, value: ReduceCase, input: Float64Array): Expected {
  const { kept, reduced } = axesOf(value);
  return collect((emit) => reduce({ dtype, kind: value.kind, kept, reduced }, input, emit));
}

/** Random data; for products near 1, so that they stay in range. */
function floats(value: ReduceCase, dtype: FloatType): Float64Array {
  const count = product(value.shape);
  const next = random(value.seed + 1);
  const numbers = draw(value.data, count, value.seed, dtype).map((x) =>
    value.kind === "prod" ? roundTo(dtype, (next() < 0.5 ? -1 : 1) * (1 + (next() - 0.5) / 16)) : x,
  );
  if (value.signs === "mixed") return numbers;
  // Not zero either, so that a neutral element that slips in is the largest or smallest.
  const sign = value.signs === "negative" ? -1 : 1;
  return numbers.map((x) => sign * (Math.abs(x) || 1));
}

export async function run(
  context: LawContext,
  dtype: ReducedType,
  value: ReduceCase,
  input: Float64Array,
  expected: Expected,
): Promise<Float64Array> {
  const { backend } = context;
  const { kind, shape, axes } = value;
  return execute({
    ...{ backend, dtype, placement: value.placement, output: "output", written: expected.places },
    operands: { input, output: new Float64Array(expected.places.length).fill(Number.NaN) },
    call: (slices) =>
      backend.reduce({
        ...{ ...slices, kind, shape },
        ...(axes === null ? {} : { axes }),
        ...given(dtype),
      }),
  });
}

/** Default tolerance: that of the kind, for float types. */
export async function check(
  context: LawContext,
  dtype: ReducedType,
  value: ReduceCase,
  input: Float64Array = floats(value, dtype as FloatType),
  special?: Tolerance,
): Promise<void> {
  const [reduced, kept] = [countOf(value, "reduced"), countOf(value, "kept")];
  const expected = expectedOf(dtype, value, input);
  const got = await run(context, dtype, value, input, expected);
  const tolerance = special ?? reduction(value.kind, reduced, dtype as FloatType, context.numerics);
  measure(context, [reduced, kept], got, expected, tolerance);
}

export const reduceLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = kindLaw<ReduceKind>("reduce", dtype);
  const ofEach = (
    kinds: readonly ReduceKind[],
    name: (kind: ReduceKind) => string,
    run: (context: LawContext, kind: ReduceKind) => Promise<void>,
  ) => kinds.map((kind) => law(`${kind}: ${name(kind)}`, kind, (context) => run(context, kind)));
  /** Runs the same law for all kinds that a backend has. */
  const supported = (context: LawContext) =>
    numberReduceKinds.filter((kind) => context.backend.supports("reduce", { dtype, kind }));
  return [
    ...ofEach(
      numberReduceKinds,
      () => "stays within the error bound",
      (context, kind) =>
        context.forAll(cases({ kinds: [kind] }), (value) => check(context, dtype, value), {
          runs: kind === "sum" ? 3 : 1,
        }),
    ),
    ...ofEach(
      ["sum", "max"],
      () => "is exact on larger shapes",
      (context, kind) =>
        context.forEach(
          largeShapes,
          (shape) => {
            const value = reduceCase({ kind, data: "uniform", ...shape });
            // The error bound of a long sum would forgive that an element is missing.
            return kind === "sum"
              ? check(context, dtype, value, wholeNumbers(value, dtype), exact(dtype))
              : check(context, dtype, value);
          },
          { quick: 3 },
        ),
    ),
    ...ofEach(
      ["sum", "max", "min", "prod"],
      () => "is exact on whole numbers",
      (context, kind) =>
        context.forAll(cases({ kinds: [kind] }), (value) =>
          check(context, dtype, value, wholeNumbers(value, dtype), exact(dtype)),
        ),
    ),
    ...ofEach(
      ["sum", "mean"],
      () => "stays accurate over many elements",
      (context, kind) =>
        context.forEach(longCases(kind, dtype), (value) => longSums(context, dtype, value), { quick: 1 }),
    ),
    ...ofEach(
      numberReduceKinds,
      (kind) => `of nothing is ${reduceIdentity[kind]}`,
      (context, kind) => context.forAll(emptyCases(kind), (value) => ofNothing(context, dtype, value)),
    ),
    law(
      "logSumExp: of equal numbers is their logarithm more, however large they are",
      "logSumExp",
      (context) =>
        context.forEach(
          [-floatFormats[dtype].largest, -1000, 0, 100, 60_000, floatFormats[dtype].largest].flatMap((x) =>
            [[null, [4096]] as const, [[0], [300, 5]] as const].map(([axes, shape]) => ({ x, axes, shape })),
          ),
          ({ x, axes, shape }) =>
            check(
              context,
              dtype,
              reduceCase({ kind: "logSumExp", shape, axes }),
              new Float64Array(product(shape)).fill(roundTo(dtype, x)),
            ),
          { quick: 12 },
        ),
    ),
    law("takes any number of axes", undefined, (context) =>
      context.forEach(
        manyAxes.flatMap((given) => supported(context).map((kind) => reduceCase({ kind, ...given }))),
        (value) => check(context, dtype, value),
        { quick: 7 },
      ),
    ),
    law("copies where there are no axes to reduce", undefined, (context) =>
      context.forAll(cases({ kinds: supported(context) }), (value) =>
        check(context, dtype, { ...value, axes: [] }, undefined, () => 0),
      ),
    ),
    law("touches nothing but the elements of its output", undefined, (context) =>
      context.forAll(cases({ kinds: supported(context), placement: oddPlacement }), (value) =>
        check(context, dtype, value),
      ),
    ),
  ];
}

/** Whole numbers whose sums or products stay exact in every order. */
function wholeNumbers(value: ReduceCase, dtype: FloatType): Float64Array {
  const count = product(value.shape);
  const terms = Math.max(countOf(value, "reduced"), 1);
  if (value.kind !== "prod") {
    const limit = Math.floor((floatFormats[dtype].exactUpTo - 1) / terms);
    return drawIntegers(Math.min(Math.max(limit, 1), 2000), count, value.seed);
  }
  // Ones of either sign, and at most ten twos in all.
  const next = random(value.seed);
  const numbers = new Float64Array(count).map(() => (next() < 0.5 ? -1 : 1));
  for (let i = 0; i < 10 && count > 0; i++) numbers[Math.floor(next() * count)] = 2;
  return numbers;
}

/** Elements of a long sum, and a term of which as many fit. */
const longest: Readonly<Record<FloatType, { readonly n: number; readonly term: number }>> = {
  f32: { n: 2 ** 20, term: 0.1 },
  f16: { n: 2 ** 18, term: 0.1 / 16 },
};

/** Equal numbers, for which the rounding errors of one running sum all have the same sign. */
function longCases(kind: ReduceKind, dtype: FloatType): readonly ReduceCase[] {
  const { n } = longest[dtype];
  return [
    reduceCase({ kind, shape: [n + 1], axes: null }),
    reduceCase({ kind, shape: [2, n / 2], axes: [1] }),
    reduceCase({ kind, shape: [n / 2, 2], axes: [0] }),
  ];
}

async function longSums(context: LawContext, dtype: FloatType, value: ReduceCase): Promise<void> {
  const term = roundTo(dtype, value.kind === "mean" ? 0.1 : longest[dtype].term);
  const input = new Float64Array(product(value.shape)).fill(term);
  const count = countOf(value, "reduced");
  const sum = longSum(value.kind, count);
  const once = reduction(value.kind, 2, dtype, context.numerics);
  await check(context, dtype, value, input, (result, magnitude) => sum(result, magnitude) + once(result, 0));
}

/** At least one reduced axis of extent 0. */
export function emptyCases(kind: ReduceKind): Arbitrary<ReduceCase> {
  return cases({ kinds: [kind], extents: extent(9) })
    .filter((value) => value.shape.length > 0 && value.axes?.length !== 0)
    .map((value): ReduceCase => {
      const [axis] = value.axes ?? [0];
      return { ...value, shape: value.shape.with(axis!, 0) };
    });
}

/** The identities are promised on every backend, whatever it declares about infinities and NaN. */
export async function ofNothing(context: LawContext, dtype: ReducedType, value: ReduceCase): Promise<void> {
  const places = Array.from({ length: countOf(value, "kept") }, (_, place) => place);
  const identity = identityOf(value.kind, dtype);
  const values = places.map(() => identity);
  const got = await run(context, dtype, value, new Float64Array(0), { places, values, magnitudes: values });
  for (const place of places)
    if (!Object.is(got[place], identity))
      throw new Error(`result ${place} is ${got[place]}, not ${identity}`);
}
