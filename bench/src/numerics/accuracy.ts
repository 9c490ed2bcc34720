import { binaryFunctions, unaryFunctions } from "@backplane/conformance";
import {
  type BinaryKind,
  type ComputeBackend,
  type DType,
  decodeFloat16,
  type UnaryKind,
} from "@backplane/core";
import { generator } from "../data.js";
import { rounded, runBinary, runUnary } from "./device.js";

/** How far the results of one function lie from the exact ones, over one sweep of normal arguments. */
export interface Accuracy {
  readonly operation: "unary" | "binary";
  readonly kind: UnaryKind | BinaryKind;
  readonly dtype: DType;
  /** Arguments whose exact result is a normal number of the type, or zero. */
  readonly samples: number;
  /** Largest error in units in the last place of the exact result; 0.5 is correct rounding to nearest. */
  readonly worst: number;
  /** Arguments and result where that is. */
  readonly at: readonly number[];
  /** What comes where the exact result is too large for the type. */
  readonly overflow: Outcome;
  /** What comes where the exact result is not zero, but below the smallest normal number. */
  readonly underflow: Outcome;
  /** The first result, with its arguments, that is none of what `overflow` and `underflow` may be. */
  readonly stray?: readonly number[];
}

export type Outcome =
  | "none" /* the sweep has no such result */
  | "infinity"
  | "largest" /* the largest finite number */
  | "kept" /* subnormal numbers, within 4 units or 2^-12 */
  | "flushed" /* zero */
  | "mixed"
  | "wrong";

const format = {
  f32: { digits: 23, lowest: -126, largest: (2 - 2 ** -23) * 2 ** 127 },
  f16: { digits: 10, lowest: -14, largest: 65504 },
} as const;

const scratch = new DataView(new ArrayBuffer(8));

/** The spacing of a type's numbers around `value`, subnormal ones apart. */
function spacing(dtype: DType, value: number): number {
  scratch.setFloat64(0, value);
  const exponent = ((scratch.getUint32(0) >>> 20) & 0x7ff) - 1023;
  return 2 ** (Math.max(exponent, format[dtype].lowest) - format[dtype].digits);
}

export async function unaryAccuracy(
  backend: ComputeBackend,
  dtype: DType,
  kind: UnaryKind,
  perExponent: number,
): Promise<Accuracy> {
  const x = dtype === "f16" ? everyHalf() : spreadSingles(perExponent);
  const exact = unaryFunctions[kind];
  const results = await runUnary(backend, dtype, kind, x);
  const summary = summarize(
    dtype,
    results,
    (i) => exact(x[i]!),
    (i) => [x[i]!],
  );
  return { operation: "unary", kind, dtype, ...summary };
}

export async function binaryAccuracy(
  backend: ComputeBackend,
  dtype: DType,
  kind: BinaryKind,
  count: number,
): Promise<Accuracy> {
  const [a, b] = kind === "pow" ? powers(dtype, count) : pairs(dtype, count);
  const exact = binaryFunctions[kind];
  const results = await runBinary(backend, dtype, kind, a, b);
  const summary = summarize(
    dtype,
    results,
    (i) => exact(a[i]!, b[i]!),
    (i) => [a[i]!, b[i]!],
  );
  return { operation: "binary", kind, dtype, ...summary };
}

type Summary = Omit<Accuracy, "operation" | "kind" | "dtype">;

function summarize(
  dtype: DType,
  results: Float32Array,
  exactOf: (i: number) => number,
  argumentsOf: (i: number) => readonly number[],
): Summary {
  const { digits, lowest, largest } = format[dtype];
  const smallestNormal = 2 ** lowest;
  const least = 2 ** (lowest - digits);
  // Halfway to what the next number would be.
  const overflowsFrom = largest + spacing(dtype, largest) / 2;
  let samples = 0;
  let worst = 0;
  let worstAt = 0;
  let stray: readonly number[] | undefined;
  const above = new Set<Outcome>();
  const below = new Set<Outcome>();
  const note = (outcomes: Set<Outcome>, outcome: Outcome, i: number): void => {
    outcomes.add(outcome);
    if (outcome === "wrong") stray ??= [...argumentsOf(i), results[i]!];
  };
  for (let i = 0; i < results.length; i++) {
    const exact = exactOf(i);
    // Arguments for which a function is not defined are a matter of `specials.ts`.
    if (!Number.isFinite(exact)) {
      if (Math.abs(exact) === Number.POSITIVE_INFINITY && !argumentsOf(i).includes(0))
        note(above, aboveAll(results[i]!, exact, largest), i);
      continue;
    }
    const got = results[i]!;
    const size = Math.abs(exact);
    if (size >= overflowsFrom) note(above, aboveAll(got, exact, largest), i);
    else if (size > 0 && size < smallestNormal) note(below, belowAll(got, exact, least), i);
    else {
      samples++;
      const error = Math.abs(got - exact) / spacing(dtype, exact);
      // A NaN or an infinity is worse than any number.
      if (!(error <= worst)) {
        worst = Number.isNaN(error) ? Number.POSITIVE_INFINITY : error;
        worstAt = i;
      }
    }
  }
  return {
    ...{ samples, worst, at: [...argumentsOf(worstAt), results[worstAt]!] },
    ...{ overflow: outcomeOf(above), underflow: outcomeOf(below) },
    ...(stray === undefined ? {} : { stray }),
  };
}

function aboveAll(got: number, exact: number, largest: number): Outcome {
  if (got === Math.sign(exact) * Number.POSITIVE_INFINITY) return "infinity";
  return got === Math.sign(exact) * largest ? "largest" : "wrong";
}

function belowAll(got: number, exact: number, least: number): Outcome {
  if (got === 0) return Math.abs(exact) <= least / 2 ? "none" : "flushed";
  return Math.abs(got - exact) <= Math.max(4 * least, 2 ** -12 * Math.abs(exact)) ? "kept" : "wrong";
}

function outcomeOf(outcomes: ReadonlySet<Outcome>): Outcome {
  if (outcomes.has("wrong")) return "wrong";
  const [first = "none", ...others] = [...outcomes].filter((outcome) => outcome !== "none");
  return others.length === 0 ? first : "mixed";
}

/** Every normal number of f16, and both zeros. */
function everyHalf(): Float32Array {
  const bits = Array.from({ length: 0x10000 }, (_, i) => i).filter((half) => {
    const exponent = (half >> 10) & 31;
    return exponent < 31 && (exponent > 0 || (half & 0x3ff) === 0);
  });
  return decodeFloat16(bits);
}

/**
 * `perExponent` numbers of either sign from each of the 254 exponents of f32, as many again from each
 * exponent in which functions bend (2^-8 to 2^8), and the numbers nearest to the first 50,000 multiples
 * of pi / 2, at which the sine and the cosine have to know pi well.
 */
function spreadSingles(perExponent: number): Float32Array {
  const next = generator(1);
  const values: number[] = [0, -0];
  const add = (exponent: number, count: number): void => {
    for (let i = 0; i < count; i++) {
      // One from each of `count` equal parts, the first number of the exponent among them.
      const fraction = i === 0 ? 0 : Math.floor(((i + next()) / count) * 2 ** 23) / 2 ** 23;
      values.push(2 ** exponent * (1 + fraction), -(2 ** exponent) * (1 + fraction));
    }
  };
  for (let exponent = -126; exponent <= 127; exponent++) add(exponent, perExponent);
  for (let exponent = -8; exponent < 8; exponent++) add(exponent, 16 * perExponent);
  for (let k = 1; k <= 50_000; k++) values.push(Math.fround((k * Math.PI) / 2));
  return Float32Array.from(values);
}

/** Both of ordinary size, or of any exponent, in turn. */
function pairs(dtype: DType, count: number): readonly [Float32Array, Float32Array] {
  const next = generator(2);
  const { lowest, largest } = format[dtype];
  const range = Math.log2(largest) - lowest;
  const draw = (i: number): number => {
    const sign = next() < 0.5 ? -1 : 1;
    return sign * (i % 2 === 0 ? 8 * next() : 2 ** (lowest + range * next()));
  };
  const values = () =>
    normal(
      dtype,
      Float64Array.from({ length: count }, (_, i) => draw(i)),
    );
  return [values(), values()];
}

/** Bases of any exponent with exponents for which the power is in range, and bases near 1 with large ones. */
function powers(dtype: DType, count: number): readonly [Float32Array, Float32Array] {
  const next = generator(3);
  const { lowest, largest } = format[dtype];
  const range = Math.log2(largest) - lowest;
  const a = new Float64Array(count);
  const b = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const kind = i % 4;
    a[i] = kind === 0 ? 2 ** (lowest + range * next()) : kind === 1 ? 1 + (next() - 0.5) / 8 : 10 * next();
    const reach = 1.05 * (-lowest / Math.max(Math.abs(Math.log2(a[i]!)), 1e-3));
    b[i] = kind === 3 ? Math.round(8 * (next() - 0.5)) : Math.min(reach, largest) * (2 * next() - 1);
  }
  return [normal(dtype, a), normal(dtype, b)];
}

/** Rounded to the type; what would not be normal is 1. */
function normal(dtype: DType, values: Float64Array): Float32Array {
  const smallest = 2 ** format[dtype].lowest;
  return rounded(dtype, values).map((value) =>
    Math.abs(value) >= smallest && Math.abs(value) <= format[dtype].largest ? value : 1,
  );
}
