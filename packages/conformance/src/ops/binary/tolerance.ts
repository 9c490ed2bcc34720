import type { ArithmeticKind, FloatType, Numerics } from "@backplane/core";
import { binaryEntries } from "../../kinds/binary.js";
import { storage, ulp, underflow } from "../../tolerance.js";

export function binaryTolerance(
  kind: ArithmeticKind,
  a: number,
  b: number,
  y: number,
  dtype: FloatType,
  numerics: Numerics,
): number {
  if (kind === "max" || kind === "min") return 0;
  const { error, isRounded, steps } = binaryEntries[kind];
  // Of several steps the last one may underflow.
  const small = steps ? underflow(1, numerics) : 0;
  const rounding = isRounded && numerics.rounding === "nearest-even" ? ulp(y) / 2 : (error?.(a, b, y) ?? 0);
  return rounding + small + storage(dtype, y, numerics);
}
