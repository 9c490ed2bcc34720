import { binaryFunctions, unaryFunctions } from "@backplane/conformance";
import type { ArithmeticKind, ComputeBackend, FloatType, FloatUnaryKind } from "@backplane/core";
import { binaryArguments, unaryArguments } from "./arguments.js";
import { runBinary, runUnary } from "./device.js";
import { exponentOf, format, spacing } from "./format.js";
import { type Range, rangesOf } from "./ranges.js";

/** How far the results of one function lie from the exact ones, over one sweep of arguments. */
export interface Accuracy extends Findings {
  readonly operation: "unary" | "binary";
  readonly kind: FloatUnaryKind | ArithmeticKind;
  readonly dtype: FloatType;
  readonly ranges: readonly Range[];
}

export interface Findings {
  /** Of all results that are normal numbers or zeros. */
  readonly samples: number;
  readonly worst: number;
  readonly at: readonly number[];
  /** The result if the exact result is too large for the type. */
  readonly overflow: Outcome;
  /** The result if the exact result is not zero, but below the smallest normal number. */
  readonly underflow: Outcome;
  /** The first result, with its arguments, that is none of those that `overflow` and `underflow` allow. */
  readonly stray?: readonly number[];
  readonly bins: readonly Bin[];
}

/** The findings for the arguments (of a binary function: the exact results) of one sign and one exponent. */
export interface Bin {
  readonly negative: boolean;
  /** e for 2^e <= |x| < 2^(e + 1); one below the smallest normal number's for zeros and subnormal numbers. */
  readonly exponent: number;
  /** Arguments whose exact result is a normal number of the type, or zero. */
  readonly samples: number;
  /** Largest error in units in the last place of the exact result; 0.5 is correct rounding to nearest. */
  readonly worst: number;
  /** Arguments and result at that place. */
  readonly at: readonly number[];
  /** Results equal to those of a zero, for subnormal arguments. */
  readonly zeroed: number;
  /** Exact results below the smallest normal number. */
  readonly subnormal: SubnormalResults;
}

export interface SubnormalResults {
  readonly samples: number;
  /** Results that are subnormal. */
  readonly kept: number;
  /** Results that are zero although the exact ones are at least one unit. */
  readonly flushed: number;
  /** Largest error of those that are not flushed, in units of the smallest subnormal number. */
  readonly worst: number;
  readonly at: readonly number[];
}

export type Outcome =
  | "none" /* the sweep has no such result */
  | "infinity"
  | "largest" /* the largest finite number */
  | "kept" /* subnormal numbers, within 4 units or 2^-12 */
  | "flushed" /* zero */
  | "mixed"
  | "wrong";

export async function unaryAccuracy(
  backend: ComputeBackend,
  dtype: FloatType,
  kind: FloatUnaryKind,
  perExponent: number,
): Promise<Accuracy> {
  const x = unaryArguments(dtype, perExponent);
  const results = await runUnary(backend, dtype, kind, x);
  const findings = compare(dtype, results, unaryFunctions[kind], x);
  return { operation: "unary", kind, dtype, ...findings, ranges: rangesOf(dtype, findings.bins) };
}

export async function binaryAccuracy(
  backend: ComputeBackend,
  dtype: FloatType,
  kind: ArithmeticKind,
  count: number,
): Promise<Accuracy> {
  const [a, b] = binaryArguments(dtype, kind, count);
  const results = await runBinary(backend, dtype, kind, a, b);
  const findings = compare(dtype, results, binaryFunctions[kind], a, b);
  return { operation: "binary", kind, dtype, ...findings, ranges: rangesOf(dtype, findings.bins) };
}

type Mutable<T> = { -readonly [key in keyof T]: Mutable<T[key]> };

/**
 * Results this close to an end of the normal numbers may lie on its other side, where they are flushed or
 * infinite; they count with those.
 */
const edge = 2 ** -19;

/** Compares the results of a function of one or two numbers with the exact ones. */
export function compare(
  dtype: FloatType,
  results: Float32Array,
  exactOf: (a: number, b: number) => number,
  a: Float32Array,
  b?: Float32Array,
): Findings {
  const { digits, lowest, largest } = format[dtype];
  const least = 2 ** (lowest - digits);
  const normalFrom = 2 ** lowest * (1 + edge);
  const zeroResults = [exactOf(0, 0), exactOf(-0, 0)].map(Math.fround);
  // Halfway to the number that would come next.
  const overflowsFrom = largest + spacing(dtype, largest) / 2;
  const bins = new Map<number, Mutable<Bin>>();
  let stray: readonly number[] | undefined;
  const above = new Set<Outcome>();
  const below = new Set<Outcome>();
  const place = (i: number): number[] => [a[i]!, ...(b === undefined ? [] : [b[i]!]), results[i]!];
  const note = (outcomes: Set<Outcome>, outcome: Outcome, i: number): void => {
    outcomes.add(outcome);
    if (outcome === "wrong") stray ??= place(i);
  };
  for (let i = 0; i < results.length; i++) {
    const x = a[i]!;
    const exact = exactOf(x, b === undefined ? 0 : b[i]!);
    const got = results[i]!;
    const size = Math.abs(exact);
    // Arguments for which a function is not defined, and poles, are a matter of `specials.ts`.
    if (Number.isNaN(exact) || (size === Number.POSITIVE_INFINITY && (x === 0 || b?.[i] === 0))) continue;
    const key = b === undefined ? x : exact;
    const exponent = Math.max(exponentOf(key), lowest - 1);
    const bin = binAt(bins, key < 0 || Object.is(key, -0), exponent);
    if (b === undefined && exponent < lowest && x !== 0 && size < overflowsFrom) {
      // Units measure the use of subnormal arguments, not whether they are read at all.
      const asZero = zeroResults[x < 0 ? 1 : 0]!;
      if (Object.is(got, asZero) && Math.abs(asZero - exact) > spacing(dtype, exact)) {
        bin.zeroed++;
        continue;
      }
    }
    if (size >= overflowsFrom || (Math.abs(got) > largest && size > largest * (1 - edge)))
      note(above, aboveAll(got, exact, largest), i);
    else if (size > 0 && size < normalFrom) {
      if (size < 2 ** lowest || got === 0) note(below, belowAll(got, exact, least), i);
      if (got !== 0 && Math.abs(got) < 2 ** lowest) bin.subnormal.kept++;
      count(bin.subnormal, got, exact, least, () => place(i));
    } else {
      bin.samples++;
      const error = Math.abs(got - exact) / spacing(dtype, exact);
      // A NaN or an infinity is worse than any number.
      if (!(error <= bin.worst)) {
        bin.worst = Number.isNaN(error) ? Number.POSITIVE_INFINITY : error;
        bin.at = place(i);
      }
    }
  }
  const all = [...bins.values()];
  const worst = all.reduce((most, bin) => (bin.worst > most.worst ? bin : most));
  return {
    samples: all.reduce((sum, bin) => sum + bin.samples, 0),
    ...{ worst: worst.worst, at: worst.at },
    ...{ overflow: outcomeOf(above), underflow: outcomeOf(below) },
    ...(stray === undefined ? {} : { stray }),
    bins: all.sort((p, q) => order(p) - order(q)),
  };
}

/** Along the axis of numbers. */
function order({ negative, exponent }: Bin): number {
  return negative ? -1024 - exponent : 1024 + exponent;
}

function binAt(bins: Map<number, Mutable<Bin>>, negative: boolean, exponent: number): Mutable<Bin> {
  const key = 2 * exponent + (negative ? 1 : 0);
  let bin = bins.get(key);
  if (bin === undefined) {
    const subnormal = { samples: 0, kept: 0, flushed: 0, worst: 0, at: [] };
    bin = { negative, exponent, samples: 0, worst: 0, at: [], zeroed: 0, subnormal };
    bins.set(key, bin);
  }
  return bin;
}

function count(
  results: Mutable<SubnormalResults>,
  got: number,
  exact: number,
  least: number,
  place: () => number[],
): void {
  results.samples++;
  const error = Math.abs(got - exact) / least;
  if (got === 0 && error >= 1) results.flushed++;
  else if (!(error <= results.worst)) {
    results.worst = Number.isNaN(error) ? Number.POSITIVE_INFINITY : error;
    results.at = place();
  }
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
