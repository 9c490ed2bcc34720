import type { ArithmeticKind, UnaryKind } from "@backplane/core";
import { binaryFunctions, unaryFunctions } from "../reference/elementwise.js";

/** Between which numbers all elements of an array lie. */
export interface Range {
  readonly low: number;
  readonly high: number;
}

/** Arrays with larger numbers are no longer used as inputs, so that nothing overflows, in f16 either. */
const largest = 32;

export function within(bound: number): Range {
  return { low: -bound, high: bound };
}

export function magnitude({ low, high }: Range): number {
  return Math.max(Math.abs(low), Math.abs(high));
}

export function isUsable(range: Range): boolean {
  return magnitude(range) <= largest;
}

/** Returns a range that allows for rounding to f16, and a little more. */
function widened(low: number, high: number): Range {
  return { low: low - Math.abs(low) / 256 - 2 ** -14, high: high + Math.abs(high) / 256 + 2 ** -14 };
}

/** The range in which the functions below have no poles and a guaranteed accuracy. */
const positive = (range: Range) => range.low >= 2 ** -4;
const domains: Partial<Record<UnaryKind, (range: Range) => boolean>> = {
  log: positive,
  rsqrt: positive,
  reciprocal: positive,
  sqrt: (range) => range.low >= 0,
  exp: (range) => range.high <= 8 && range.low >= -8,
  sin: (range) => magnitude(range) <= 3,
  cos: (range) => magnitude(range) <= 3,
};

/** The results that are not between those for the ends of the range. */
const images: Partial<Record<UnaryKind, (range: Range) => Range>> = {
  abs: (range) => ({ low: 0, high: magnitude(range) }),
  sin: () => within(1),
  cos: () => within(1),
  gelu: ({ high }) => ({ low: -0.3, high: Math.max(high, 0) }),
  geluTanh: ({ high }) => ({ low: -0.3, high: Math.max(high, 0) }),
  silu: ({ high }) => ({ low: -0.3, high: Math.max(high, 0) }),
};

/** Returns the range of the results; undefined if the function must not be called with numbers of this range. */
export function unaryRange(kind: UnaryKind, range: Range): Range | undefined {
  if (domains[kind]?.(range) === false) return undefined;
  const image = images[kind]?.(range);
  if (image !== undefined) return widened(image.low, image.high);
  const ends = [unaryFunctions[kind](range.low), unaryFunctions[kind](range.high)] as const;
  return widened(Math.min(...ends), Math.max(...ends));
}

export function binaryRange(kind: ArithmeticKind, a: Range, b: Range): Range | undefined {
  if (kind === "div" && !positive(b)) return undefined;
  if (kind === "pow" && !(positive(a) && magnitude(a) <= 4 && magnitude(b) <= 2)) return undefined;
  // All of these are monotonic in either argument wherever they are asked for.
  const ends = [a.low, a.high].flatMap((x) => [b.low, b.high].map((y) => binaryFunctions[kind](x, y)));
  return widened(Math.min(...ends), Math.max(...ends));
}
