import { type FloatType, floatTypes, type UnaryKind, unaryKinds } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, oddPlacement, placement } from "../../arbitraries/shapes.js";
import { random, roundTo } from "../../data.js";
import { storages } from "../../elements.js";
import { unaryFunctions } from "../../functions.js";
import { given } from "../../kit/arguments.js";
import type { Law, LawContext } from "../../law.js";
import { execute, measure, type Placement } from "../../workspace.js";
import { unaryTolerance } from "./tolerance.js";

/** The range in which a function is defined and its result representable, per element type. */
interface Domain {
  readonly lowest: number;
  readonly highest: number;
  /** The smallest magnitude other than 0. Default: the smallest normal number. */
  readonly smallest?: number;
  readonly zero?: boolean;
}

const everything: Readonly<Record<FloatType, Domain>> = {
  f32: { lowest: -3.4e38, highest: 3.4e38 },
  f16: { lowest: -65504, highest: 65504 },
};
const positive: Readonly<Record<FloatType, Domain>> = {
  f32: { lowest: 0, highest: 3.4e38, zero: false },
  f16: { lowest: 0, highest: 65504, zero: false },
};
/** Far beyond the overflow of formulas that are computed literally. */
const wide: Readonly<Record<FloatType, Domain>> = {
  f32: { lowest: -1e4, highest: 1e4 },
  f16: { lowest: -1e4, highest: 1e4 },
};
/** WGSL grants no accuracy elsewhere. */
const circle: Readonly<Record<FloatType, Domain>> = {
  f32: { lowest: -Math.PI, highest: Math.PI },
  f16: { lowest: -Math.PI, highest: Math.PI },
};

const domains: Readonly<Record<UnaryKind, Readonly<Record<FloatType, Domain>>>> = {
  ...{ relu: everything, abs: everything, neg: everything, sign: everything },
  ...{ floor: everything, ceil: everything, round: everything },
  ...{ sigmoid: wide, tanh: wide, silu: wide, softplus: wide, erf: wide, gelu: wide, geluTanh: wide },
  ...{ sin: circle, cos: circle, log: positive, rsqrt: positive },
  sqrt: { f32: { ...positive.f32, zero: true }, f16: { ...positive.f16, zero: true } },
  exp: { f32: { lowest: -87, highest: 88.7 }, f16: { lowest: -9.5, highest: 11 } },
  expm1: { f32: { lowest: -1e4, highest: 88.7 }, f16: { lowest: -1e4, highest: 11 } },
  // The reciprocals of both ends are normal numbers of either type.
  reciprocal: {
    f32: { lowest: -8e37, highest: 8e37, smallest: 2 ** -125, zero: false },
    f16: { lowest: -16000, highest: 16000, smallest: 2 ** -13, zero: false },
  },
};

/** Arguments at which functions change course: overflow, ties, cancellation, the ends of approximations. */
const landmarks: readonly number[] = [
  ...[0, 0.5, 1, 1.5, 2, 2.5, 3.5, 4, 10, 20, 87, 88.5, 88.72, 103, 104, 1000],
  ...[1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.25, Math.LN2 / 2, 0.49999997, 0.625, Math.SQRT1_2, 0.9999999, 1.0000001],
  ...[Math.PI / 4, Math.PI / 2, 0.75 * Math.PI, 3.125],
  ...[1023.5, 2047.5, 2048, 4194303.5, 8388607.5, 8388608, 16777216],
];

/** Landmarks, then numbers spread evenly, near 1, and evenly over the exponents, in turn. */
function drawArguments(kind: UnaryKind, dtype: FloatType, n: number, seed: number): Float64Array {
  const { lowest, highest, smallest = storages[dtype].smallestNormal } = domains[kind][dtype];
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
export function inDomain(kind: UnaryKind, dtype: FloatType, x: number): boolean {
  const { lowest, highest, smallest = storages[dtype].smallestNormal, zero = true } = domains[kind][dtype];
  return x === 0 ? zero : x >= lowest && x <= highest && Math.abs(x) >= smallest;
}

interface UnaryCase {
  readonly kind: UnaryKind;
  readonly n: number;
  readonly placement: Placement;
  readonly seed: number;
}

function cases(kinds: readonly UnaryKind[], place: Arbitrary<Placement> = placement): Arbitrary<UnaryCase> {
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
  const law = (name: string, kind: UnaryKind | undefined, run: Law["run"]): Law => ({
    ...{ topic: "unary", name, operation: "unary", dtype, run },
    exempt: (_capabilities, backend) =>
      kind === undefined || backend.supports("unary", { dtype, kind })
        ? undefined
        : `${kind} in ${dtype} is not supported`,
  });
  const full = { n: 6007, placement: { before: [1, 3], shared: false } };
  return [
    ...unaryKinds.map((kind) =>
      law(`${kind}: stays within its error bound`, kind, (context) =>
        context.forAll(cases([kind]), (value) => check(context, dtype, value), {
          runs: 0.25,
          examples: [1, 2].map((seed) => ({ kind, seed, ...full })),
        }),
      ),
    ),
    law("touches nothing but n elements of its output", undefined, (context) => {
      const kinds = unaryKinds.filter((kind) => context.backend.supports("unary", { dtype, kind }));
      return context.forAll(cases(kinds, oddPlacement), (value) => check(context, dtype, value));
    }),
    law("takes n = 0 for nothing to do", undefined, (context) => {
      const kinds = unaryKinds.filter((kind) => context.backend.supports("unary", { dtype, kind }));
      return context.forAll(cases(kinds), (value) => check(context, dtype, { ...value, n: 0 }), {
        runs: 0.5,
      });
    }),
  ];
}
