import type { FloatUnaryKind } from "@backplane/core";
import { unaryEntries } from "../../kinds/unary.js";
import { type Range, widened } from "../../kit/range.js";

/** Returns the range of the results; undefined if the function must not be called with numbers of this range. */
export function unaryRange(kind: FloatUnaryKind, range: Range): Range | undefined {
  const { compute, allows, image } = unaryEntries[kind];
  if (allows?.(range) === false) return undefined;
  const within = image?.(range);
  if (within !== undefined) return widened(within.low, within.high);
  const ends = [compute(range.low), compute(range.high)] as const;
  return widened(Math.min(...ends), Math.max(...ends));
}
