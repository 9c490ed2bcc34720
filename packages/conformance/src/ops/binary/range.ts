import type { ArithmeticKind } from "@backplane/core";
import { binaryEntries } from "../../kinds/binary.js";
import { type Range, widened } from "../../kit/range.js";

/** Returns the range of the results; undefined if the function must not be called with numbers of these ranges. */
export function binaryRange(kind: ArithmeticKind, a: Range, b: Range): Range | undefined {
  const { compute, allows, image } = binaryEntries[kind];
  if (allows?.(a, b) === false) return undefined;
  const within = image?.(a, b);
  if (within !== undefined) return widened(within.low, within.high);
  // All of these are monotonic in either argument wherever they are asked for.
  const ends = [a.low, a.high].flatMap((x) => [b.low, b.high].map((y) => compute(x, y)));
  return widened(Math.min(...ends), Math.max(...ends));
}
