import type { UnaryKind } from "@backplane/core";
import { unaryFunctions } from "../../functions.js";
import { isPositive, magnitude, type Range, widened, within } from "../../kit/range.js";

/** Where functions have no poles and a guaranteed accuracy. */
const domains: Partial<Record<UnaryKind, (range: Range) => boolean>> = {
  log: isPositive,
  rsqrt: isPositive,
  reciprocal: isPositive,
  sqrt: (range) => range.low >= 0,
  exp: (range) => range.high <= 8 && range.low >= -8,
  expm1: (range) => range.high <= 8,
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
