import type { ArithmeticKind, FloatType, Numerics } from "@backplane/core";
import { epsilon, storage, ulp, underflow } from "../../tolerance.js";

const binaryErrors: Readonly<Record<ArithmeticKind, (a: number, b: number, y: number) => number>> = {
  add: (_a, _b, y) => ulp(y),
  sub: (_a, _b, y) => ulp(y),
  mul: (_a, _b, y) => ulp(y),
  div: (_a, _b, y) => 2.5 * ulp(y),
  max: () => 0,
  min: () => 0,
  // 2^t with t = b log2 |a|: log2 is off by 2^-21 on [1/2, 2] and 3 units outside, the product by one,
  // 2^t by 3 + 2|t|.
  pow(a, b, y) {
    const base = Math.abs(a);
    if (base === 0 || b === 0) return 0;
    const logarithm = Math.log2(base);
    const t = b * logarithm;
    const logarithmError = base >= 0.5 && base <= 2 ? 2 ** -21 : 3 * ulp(logarithm);
    const exponentError = Math.abs(b) * logarithmError + epsilon * Math.abs(t);
    return Math.abs(y) * (Math.expm1(Math.LN2 * exponentError) + (3 + 2 * Math.abs(t)) * epsilon);
  },
};

export function binaryTolerance(
  kind: ArithmeticKind,
  a: number,
  b: number,
  y: number,
  dtype: FloatType,
  numerics: Numerics,
): number {
  if (kind === "max" || kind === "min") return 0;
  // A power takes several steps, the last of which may underflow.
  const small = kind === "pow" ? underflow(1, numerics) : 0;
  const isRounded = numerics.rounding === "nearest-even" && kind !== "pow";
  return (isRounded ? ulp(y) / 2 : binaryErrors[kind](a, b, y)) + small + storage(dtype, y, numerics);
}
