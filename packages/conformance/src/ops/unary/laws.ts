import { type FloatType, type FloatUnaryKind, floatTypes, floatUnaryKinds } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, oddPlacement, placement } from "../../arbitraries/shapes.js";
import { random, roundTo } from "../../data.js";
import { storages } from "../../elements.js";
import { unaryFunctions } from "../../functions.js";
import { unaryEntries } from "../../kinds/unary.js";
import { given } from "../../kit/arguments.js";
import { kindLaw } from "../../kit/kind-law.js";
import type { Law, LawContext } from "../../law.js";
import { execute, measure, type Placement } from "../../workspace.js";
import { unaryTolerance } from "./tolerance.js";

/** Arguments at which functions change course: overflow, ties, cancellation, the ends of approximations. */
const landmarks: readonly number[] = [
  ...[0, 0.5, 1, 1.5, 2, 2.5, 3.5, 4, 10, 20, 87, 88.5, 88.72, 103, 104, 1000],
  ...[1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.25, Math.LN2 / 2, 0.49999997, 0.625, Math.SQRT1_2, 0.9999999, 1.0000001],
  ...[Math.PI / 4, Math.PI / 2, 0.75 * Math.PI, 3.125],
  ...[1023.5, 2047.5, 2048, 4194303.5, 8388607.5, 8388608, 16777216],
];

/** Landmarks, then numbers spread evenly, near 1, and evenly over the exponents, in turn. */
function drawArguments(kind: FloatUnaryKind, dtype: FloatType, n: number, seed: number): Float64Array {
  const { lowest, highest, smallest = storages[dtype].smallestNormal } = unaryEntries[kind].domain[dtype];
  const next = random(seed);
  const sign = () => (lowest < 0 && next() < 0.5 ? -1 : 1);
  const span = Math.min(highest, 100) - Math.max(lowest, -100);
  const lowestExponent = Math.log2(smallest);
  const exponents = Math.log2(highest) - lowestExponent;
  const drawOne = (i: number): number => {
    if (i < 2 * landmarks.length) return (i % 2 === 0 ? 1 : -1) * landmarks[i >> 1]!;
    if (i % 3 === 0) return Math.max(lowest, -100) + span * next();
    if (i % 3 === 1) return sign() * (1 + (next() - 0.5) / 4);
    return sign() * 2 ** (lowestExponent + exponents * next());
  };
  const fallback = Math.min(1, highest);
  return new Float64Array(n).map((_, i) => {
    // Shorter cases start somewhere among the landmarks.
    const x = roundTo(dtype, drawOne(i + (n < 1000 ? Math.abs(seed) % (2 * landmarks.length) : 0)));
    return inDomain(kind, dtype, x) ? x : fallback;
  });
}

/** Whether the least bounds of a function speak of the argument x. */
export function inDomain(kind: FloatUnaryKind, dtype: FloatType, x: number): boolean {
  const {
    lowest,
    highest,
    smallest = storages[dtype].smallestNormal,
    zero = true,
  } = unaryEntries[kind].domain[dtype];
  return x === 0 ? zero : x >= lowest && x <= highest && Math.abs(x) >= smallest;
}

interface UnaryCase {
  readonly kind: FloatUnaryKind;
  readonly n: number;
  readonly placement: Placement;
  readonly seed: number;
}

function cases(
  kinds: readonly FloatUnaryKind[],
  place: Arbitrary<Placement> = placement,
): Arbitrary<UnaryCase> {
  return fc.record({
    kind: fc.constantFrom(...kinds),
    n: fc.constantFrom(1, 2, 3, 4, 5, 7, 8, 15, 17, 31, 63, 64, 65, 127, 255, 256, 257, 1023, 1025, 4099),
    placement: place,
    seed: dataSeed,
  });
}

async function check(context: LawContext, dtype: FloatType, value: UnaryCase): Promise<void> {
  const { backend } = context;
  const { kind, n, seed } = value;
  const input = drawArguments(kind, dtype, n, seed);
  const values = Array.from(input, unaryFunctions[kind]);
  const places = values.map((_, place) => place);
  const got = await execute({
    ...{ backend, dtype, placement: value.placement, output: "output", written: places },
    operands: { input, output: new Float64Array(n).fill(Number.NaN) },
    call: (slices) => backend.unary({ ...slices, kind, n, ...given(dtype) }),
  });
  const { numerics } = context;
  const tolerance = (y: number, x: number) => unaryTolerance(kind, x, y, dtype, numerics);
  try {
    // The argument itself scales the error.
    measure(context, [n], got, { places, values, magnitudes: Array.from(input) }, tolerance);
  } catch (error) {
    const wrong = places.find((i) => !(Math.abs(got[i]! - values[i]!) <= tolerance(values[i]!, input[i]!)));
    const message = `${kind}(${wrong === undefined ? "" : input[wrong]}): ${(error as Error).message}`;
    throw new Error(message, { cause: error });
  }
}

export const unaryLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = kindLaw<FloatUnaryKind>("unary", dtype);
  const full = { n: 6007, placement: { before: [1, 3], shared: false } };
  return [
    ...floatUnaryKinds.map((kind) =>
      law(`${kind}: stays within its error bound`, kind, (context) =>
        context.forAll(cases([kind]), (value) => check(context, dtype, value), {
          runs: 0.25,
          examples: [1, 2].map((seed) => ({ kind, seed, ...full })),
        }),
      ),
    ),
    law("touches nothing but n elements of its output", undefined, (context) => {
      const kinds = floatUnaryKinds.filter((kind) => context.backend.supports("unary", { dtype, kind }));
      return context.forAll(cases(kinds, oddPlacement), (value) => check(context, dtype, value));
    }),
    law("takes n = 0 for nothing to do", undefined, (context) => {
      const kinds = floatUnaryKinds.filter((kind) => context.backend.supports("unary", { dtype, kind }));
      return context.forAll(cases(kinds), (value) => check(context, dtype, { ...value, n: 0 }), {
        runs: 0.5,
      });
    }),
  ];
}
