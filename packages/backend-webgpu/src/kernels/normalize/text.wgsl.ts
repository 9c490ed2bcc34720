import {
  floatLayouts,
  input,
  lines,
  output,
  type Storage,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { loadFunction, storageOf, type Type, typeOf, type Vector } from "../rows/index.js";
import { type ResultTile, USES_BIAS, USES_WEIGHT } from "./tile.js";

/*
 * For layer, a row is seen around a pivot p, its first element, so that rows of equal elements have no deviations at
 * all, and then around c = p + the mean of x - p, which is as close to the mean m as f32 allows: S is the sum of
 * x - c, Q that of its square, m = c + S / n, v = Q / n - (S / n)^2, where next to nothing cancels. A result is
 * ((x - c) - S / n) / sqrt(v + epsilon). Its error is that of differences from a number close to x; the height of a row
 * only shows where c is rounded, which S makes up for. In units of 2^-24, to first order, v is off by 4 (differences
 * and squares) + 5 (the division) + the additions of Q that follow one another: 36 at most.
 *
 * Longer rows are cut into parts with moments each: p, the mean of x - p, V = the sum of (x - mean)^2 and the number of
 * elements n; for rms 0, 0, the sum of x^2, n. Of two parts, n and k elements with means d apart, V is the sum of both
 * and d^2 n k / (n + k) (T. Chan, G. Golub, R. LeVeque, "Algorithms for computing the sample variance", American
 * Statistician 37, 1983). An invocation joins the moments of a few loads at a time, so that nothing cancels.
 */

/** The bindings of data, factors and results. */
export function resultBindings({ dtype, vector, affine, inPlace }: ResultTile): Record<string, Storage> {
  const storage = storageOf(dtype, vector);
  return {
    ...(inPlace ? {} : { data: input(storage) }),
    ...(affine ? { weight: input(storage), bias: input(storage) } : {}),
    output: output(storage),
  };
}

/** `loaded` is the number of elements of a load; words of f16 at any place are read one element at a time. */
export function loads(
  { dtype, affine, inPlace }: Pick<ResultTile, "dtype" | "affine" | "inPlace">,
  loaded: Vector,
): string {
  const type = typeOf(loaded);
  return wgsl`
${workgroupIndex}
${floatLayouts[dtype].functions}
${loadFunction(inPlace ? "output" : "data", dtype, type)}
${affine ? loadFunction("weight", dtype, type, "load_weight") : ""}
${affine ? loadFunction("bias", dtype, type, "load_bias") : ""}
`;
}

/** Multiplies variables by the weight and adds the bias, all loads of either under way together. */
export function applyFactors(count: number, column: (i: number) => string): string {
  return wgsl`
  if ((parameters.uses & ${USES_WEIGHT}u) != 0u) {
${lines(count, (i) => `    value_${i} *= load_weight(${column(i)});`)}
  }
  if ((parameters.uses & ${USES_BIAS}u) != 0u) {
${lines(count, (i) => `    value_${i} += load_bias(${column(i)});`)}
  }
`;
}

/** The first component of a vector. */
export function firstOf({ size }: Type, value: string): string {
  return size === 1 ? value : `${value}.x`;
}
