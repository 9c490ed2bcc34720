import type { FloatType, FloatUnaryKind, Numerics } from "@backplane/core";
import { unaryEntries } from "../../kinds/unary.js";
import { storage, ulp, underflow } from "../../tolerance.js";

const noError = (): number => 0;

/** Returns the allowed error of f(x) = y in f32, as a function of x and y. */
export function unaryError(kind: FloatUnaryKind): (x: number, y: number) => number {
  return unaryEntries[kind].error ?? noError;
}

export function unaryTolerance(
  kind: FloatUnaryKind,
  x: number,
  y: number,
  dtype: FloatType,
  numerics: Numerics,
): number {
  const { error } = unaryEntries[kind];
  // The results of these are numbers that f16 holds if it holds x.
  if (error === undefined) return 0;
  const isRounded = numerics.rounding === "nearest-even" && (kind === "sqrt" || kind === "square");
  // An intermediate result below the smallest normal number may vanish.
  return (isRounded ? ulp(y) / 2 : error(x, y) + underflow(1, numerics)) + storage(dtype, y, numerics);
}
