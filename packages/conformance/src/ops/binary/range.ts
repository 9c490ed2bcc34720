import type { ArithmeticKind } from "@backplane/core";
import { binaryFunctions } from "../../functions.js";
import { isPositive, magnitude, type Range, widened } from "../../kit/range.js";

/** Returns the range of the results; undefined if the function must not be called with numbers of these ranges. */
export function binaryRange(kind: ArithmeticKind, a: Range, b: Range): Range | undefined {
  if (kind === "div" && !isPositive(b)) return undefined;
  if (kind === "pow" && !(isPositive(a) && magnitude(a) <= 4 && magnitude(b) <= 2)) return undefined;
  // All of these are monotonic in either argument wherever they are asked for.
  const ends = [a.low, a.high].flatMap((x) => [b.low, b.high].map((y) => binaryFunctions[kind](x, y)));
  return widened(Math.min(...ends), Math.max(...ends));
}
