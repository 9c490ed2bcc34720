import {
  type ArithmeticKind,
  arithmeticKinds,
  type BinaryKind,
  elementTypes,
  type FloatType,
  floatTypes,
  isComparison,
  type Operand,
  type Scalar,
} from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, distribution, fixedPlacement, oddPlacement, placement } from "../../arbitraries/shapes.js";
import { type Distribution, draw, random, roundTo } from "../../data.js";
import { binaryEntries } from "../../kinds/binary.js";
import { given } from "../../kit/arguments.js";
import { kindLaw } from "../../kit/kind-law.js";
import { product } from "../../kit/shapes.js";
import type { Law, LawContext } from "../../law.js";
import { execute, measure, type Placement } from "../../workspace.js";
import { offsets } from "../places.js";
import { drawExact } from "./exact-data.js";
import { functionOf, type NumberType, toleranceOf } from "./formula.js";

/** How the operands of a call are given. */
type Form = "n" | "scalar a" | "scalar b" | "shapes";

export interface BinaryCase {
  readonly kind: BinaryKind;
  readonly form: Form;
  /** For all forms but shapes. */
  readonly n: number;
  readonly shapeA: readonly number[];
  readonly shapeB: readonly number[];
  readonly data: Distribution;
  readonly placement: Placement;
  readonly seed: number;
}

const counts = [1, 2, 3, 4, 5, 7, 8, 15, 17, 31, 33, 63, 64, 65, 127, 255, 257, 1023, 1025, 4099];

/** Elements that one random case may have. */
const work = 2 ** 14;

export interface CaseOptions {
  readonly forms?: readonly Form[];
  readonly placement?: Arbitrary<Placement>;
  readonly extents?: readonly number[];
}

export function cases(kinds: readonly BinaryKind[], options: CaseOptions = {}): Arbitrary<BinaryCase> {
  return fc
    .record({
      kind: fc.constantFrom(...kinds),
      form: fc.constantFrom(...(options.forms ?? (["n", "scalar a", "scalar b", "shapes"] as const))),
      n: fc.constantFrom(...counts),
      shapes: broadcastShapes(options.extents ?? [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 65, 129]),
      data: distribution,
      placement: options.placement ?? placement,
      seed: dataSeed,
    })
    .map(({ shapes, ...rest }): BinaryCase => ({ ...rest, shapeA: shapes.a, shapeB: shapes.b }))
    .filter((value) => product(outputShape(value)) <= work);
}

/** Two shapes that broadcast: along each axis both have the extent, or one of them has 1 or no such axis. */
function broadcastShapes(
  extents: readonly number[],
): Arbitrary<{ readonly a: readonly number[]; readonly b: readonly number[] }> {
  const axis = fc.tuple(fc.constantFrom(...extents), fc.constantFrom("both", "both", "a", "b"));
  return fc
    .record({
      axes: fc.oneof(fc.array(axis, { maxLength: 2 }), fc.array(axis, { minLength: 2, maxLength: 5 })),
      dropA: fc.constantFrom(0, 0, 1, 2, 5),
      dropB: fc.constantFrom(0, 0, 1, 2, 5),
    })
    .map(({ axes, dropA, dropB }) => {
      const side = (other: string, drop: number) =>
        axes.map(([extent, owner]) => (owner === other ? 1 : extent)).slice(Math.min(drop, axes.length));
      // Only one of the two may lack leading axes, or the output would lack them too.
      return { a: side("b", dropA), b: side("a", dropA > 0 ? 0 : dropB) };
    });
}

/** Aligned at the last axis; worked out here and not by the code under test. */
export function outputShape({ shapeA, shapeB }: BinaryCase): number[] {
  const rank = Math.max(shapeA.length, shapeB.length);
  return Array.from({ length: rank }, (_, axis) => {
    const a = shapeA[axis - rank + shapeA.length] ?? 1;
    const b = shapeB[axis - rank + shapeB.length] ?? 1;
    return a === 1 ? b : a;
  });
}

/** Returns, for each element of the output, the place of its operand. */
function broadcastPlaces(shape: readonly number[], output: readonly number[]): readonly number[] {
  let step = 1;
  const strides = new Array<number>(output.length).fill(0);
  for (let i = 1; i <= shape.length; i++) {
    const extent = shape[shape.length - i]!;
    if (extent !== 1) strides[output.length - i] = step;
    step *= extent;
  }
  return offsets(output.map((extent, axis) => ({ extent, stride: strides[axis]! })));
}

function pairOf(dtype: NumberType, { kind, data, seed }: BinaryCase, countA: number, countB: number) {
  if (elementTypes[dtype].range !== undefined || isComparison(kind))
    return drawExact(dtype, data, seed, countA, countB);
  return drawPair(kind as ArithmeticKind, dtype as FloatType, data, seed, countA, countB);
}

/** Data for both sides of an operation that keep its results in range. */
function drawPair(
  kind: ArithmeticKind,
  dtype: FloatType,
  data: Distribution,
  seed: number,
  countA: number,
  countB: number,
) {
  const a = draw(data, countA, seed, dtype);
  const b = draw(data, countB, seed + 1, dtype);
  const { drawn } = binaryEntries[kind];
  if (drawn === undefined) return { a, b };
  const next = random(seed + 2);
  const round = (x: number) => roundTo(dtype, x);
  const pair = (index: number, side: 0 | 1) =>
    round(drawn({ a: a[index]!, b: b[index]!, index, seed, dtype, next })[side]);
  return { a: a.map((_, i) => pair(i, 0)), b: b.map((_, i) => pair(i, 1)) };
}

export async function check(context: LawContext, dtype: NumberType, value: BinaryCase): Promise<void> {
  const { backend } = context;
  const { kind, form, n } = value;
  const isScalarA = form === "scalar a";
  const isScalarB = form === "scalar b";
  const shapeA = form === "shapes" ? value.shapeA : [isScalarA ? 1 : n];
  const shapeB = form === "shapes" ? value.shapeB : [isScalarB ? 1 : n];
  const output = form === "shapes" ? outputShape(value) : [n];
  const { a, b } = pairOf(dtype, value, product(shapeA), product(shapeB));
  const placesA = broadcastPlaces(shapeA, output);
  const placesB = broadcastPlaces(shapeB, output);
  const places = placesA.map((_, place) => place);
  const apply = functionOf(kind, dtype);
  const values = places.map((i) => apply(a[placesA[i]!]!, b[placesB[i]!]!));
  const operands = {
    ...(isScalarA ? {} : { a }),
    ...(isScalarB ? {} : { b }),
    output: new Float64Array(places.length).fill(Number.NaN),
  } as Record<"a" | "b" | "output", Float64Array>;
  const got = await execute({
    ...{ backend, dtype, placement: value.placement, output: "output", written: places, operands },
    ...(isComparison(kind) ? { dtypes: { output: "u8" } } : {}),
    call: (slices) => {
      const first: Operand | Scalar = isScalarA ? { scalar: a[0]! } : slices.a;
      const second: Operand | Scalar = isScalarB ? { scalar: b[0]! } : slices.b;
      const extents = form === "shapes" ? { shapeA, shapeB } : { n };
      // The output shape is given in every second case; it is derived in the others.
      const shape = value.seed % 2 === 0 ? { outputShape: output } : {};
      const type = given(dtype);
      backend.binary({ kind, a: first, b: second, output: slices.output, ...extents, ...shape, ...type });
    },
  });
  const { numerics } = context;
  const allowed = toleranceOf(kind, dtype, numerics);
  const tolerance = (y: number, _magnitude: number, i: number) =>
    allowed(a[placesA[i]!]!, b[placesB[i]!]!, y);
  // The tolerance covers subnormal results that may be flushed.
  measure(
    context,
    [places.length, Math.min(a.length, b.length)],
    got,
    { places, values, magnitudes: values },
    tolerance,
  );
}

export const largeCases: readonly BinaryCase[] = [
  { shapeA: [300, 301], shapeB: [301] },
  { shapeA: [300, 300], shapeB: [300, 1] },
  { shapeA: [513, 1], shapeB: [1, 511] },
  { shapeA: [2, 3, 65, 129], shapeB: [3, 1, 129] },
  { shapeA: [7, 1, 33, 1, 9], shapeB: [1, 5, 1, 13, 1] },
  { shapeA: [], shapeB: [70_001] },
  { shapeA: [65_536, 2], shapeB: [65_536, 1] },
].map((shapes) => ({
  ...{ kind: "sub", form: "shapes", n: 1, data: "normal", placement: fixedPlacement, seed: 1 },
  ...shapes,
}));

/** More axes along which the operands take turns than a kernel has loops. */
const manyAxes: readonly BinaryCase[] = [
  { shapeA: [2, 1, 3, 1, 2, 1, 2, 1, 2, 1, 3], shapeB: [1, 3, 1, 2, 1, 2, 1, 2, 1, 2, 1] },
  { shapeA: [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 5], shapeB: [2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1] },
  { shapeA: [1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 4], shapeB: [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1] },
].map((shapes) => ({
  ...{ kind: "sub", form: "shapes", n: 1, data: "normal", placement: fixedPlacement, seed: 1 },
  ...shapes,
}));

export const binaryLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = kindLaw<ArithmeticKind>("binary", dtype);
  /** Runs the same law for all kinds that a backend has. */
  const supported = (context: LawContext) =>
    arithmeticKinds.filter((kind) => context.backend.supports("binary", { dtype, kind }));
  return [
    ...arithmeticKinds.map((kind) =>
      law(`${kind}: stays within its error bound`, kind, (context) =>
        context.forAll(cases([kind]), (value) => check(context, dtype, value)),
      ),
    ),
    law("broadcasts as NumPy does", undefined, (context) =>
      context.forAll(
        cases(supported(context), { forms: ["shapes"] }),
        (value) => check(context, dtype, value),
        {
          runs: 3,
        },
      ),
    ),
    law("broadcasts larger shapes", "sub", (context) =>
      context.forEach(largeCases, (value) => check(context, dtype, value), { quick: 3 }),
    ),
    law("broadcasts any number of axes", "sub", (context) =>
      context.forEach(manyAxes, (value) => check(context, dtype, value)),
    ),
    law("takes a scalar for either operand", undefined, (context) =>
      context.forAll(cases(supported(context), { forms: ["scalar a", "scalar b"] }), (value) =>
        check(context, dtype, value),
      ),
    ),
    law("touches nothing but the elements of its output", undefined, (context) =>
      context.forAll(cases(supported(context), { placement: oddPlacement }), (value) =>
        check(context, dtype, value),
      ),
    ),
    law("takes zero extents for nothing to do", undefined, (context) =>
      context.forAll(
        cases(supported(context), { forms: ["shapes"], extents: [0, 1, 2] }).filter(
          (value) => product(outputShape(value)) === 0,
        ),
        (value) => check(context, dtype, value),
        { runs: 0.5 },
      ),
    ),
  ];
}
