import type { FloatType, NormalizeProblem, Numerics } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { epsilon as eps, gamma, storage, type Tolerance, underflow } from "../../tolerance.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";

export type NormalizeShape = Pick<NormalizeProblem<unknown>, "kind" | "rows" | "size" | "epsilon">;

export interface NormalizeInputs {
  readonly input: Float64Array;
  readonly weight?: Float64Array | undefined;
  readonly bias?: Float64Array | undefined;
}

/** What takes the elements of each output. */
export interface NormalizeOutputs {
  readonly output?: Emit;
  readonly mean?: Emit | undefined;
  readonly inverseDeviation?: Emit | undefined;
}

/**
 * The relative error of a sum of n terms: n - 1 additions in any order, and as many again for parts that are joined
 * through their means.
 */
export function sumError(n: number): number {
  return n === 1 ? 0 : gamma(2 * n);
}

/** A sum that does not lose small terms: 8 sqrt(n) half units. A running sum in f32 exceeds it from n = 10^5 on. */
export function longSumError(n: number): number {
  return 8 * Math.sqrt(n) * (eps / 2);
}

/**
 * The magnitude of a result is its error in units of epsilon, if every step is as inaccurate as WGSL allows. With g the
 * relative error of sums, D the mean of |x - m|, and s = v + epsilon:
 *
 * - m is off by d = 4 |m| + (g + 3) D: it is rounded to f32 after a division (2.5), and only what is left of x
 *   without a number close to all of them is summed. Sums of x itself would be off by g times the mean of |x|;
 * - x - m is off by that and 3 |x - m|;
 * - v is off by (g + 10) v, and by d^2, but not by d: the sum of x - m is 0. q is off by (g + 6) q;
 * - 1 / sqrt(s) takes the root of the error of s, and 5 (addition, division, root);
 * - the result, the errors of its factors, 2 for products, and 1 of the bias and of itself.
 */
export function normalize(
  { kind, rows, size, epsilon }: NormalizeShape,
  { input, weight, bias }: NormalizeInputs,
  { output, mean, inverseDeviation }: NormalizeOutputs,
  sumErrorOf: (n: number) => number = sumError,
): void {
  for (let row = 0; row < rows; row++) {
    const x = input.subarray(row * size, (row + 1) * size);
    const { middle, shift, inverse, ofInverse } = statisticsOf({ kind, epsilon }, x, sumErrorOf);
    mean?.(row, middle, shift / eps);
    inverseDeviation?.(row, inverse, (inverse * ofInverse) / eps);
    if (output === undefined) continue;
    for (let i = 0; i < size; i++) {
      const difference = x[i]! - middle;
      const factor = weight?.[i] ?? 1;
      const value = difference * inverse * factor + (bias?.[i] ?? 0);
      const distance = Math.abs(difference);
      const ofDifference = kind === "layer" ? shift + 3 * eps * distance : 0;
      const error =
        Math.abs(factor) *
          inverse *
          (ofDifference * (1 + ofInverse) + distance * (ofInverse + 2 * eps * (1 + ofInverse))) +
        eps * (Math.abs(bias?.[i] ?? 0) + Math.abs(value));
      output(row * size + i, value, error / eps);
    }
  }
}

/** m and r of a row, the absolute error of m, and the relative one of r. */
export interface RowStatistics {
  readonly middle: number;
  readonly shift: number;
  readonly inverse: number;
  readonly ofInverse: number;
}

export function statisticsOf(
  { kind, epsilon }: Pick<NormalizeShape, "kind" | "epsilon">,
  x: Float64Array,
  sumErrorOf: (n: number) => number,
): RowStatistics {
  const g = sumErrorOf(x.length);
  let [middle, shift] = [0, 0];
  if (kind === "layer") {
    middle = meanOf(x, (value) => value);
    shift = 4 * eps * Math.abs(middle) + (g + 3 * eps) * meanOf(x, (value) => Math.abs(value - middle));
  }
  const square = meanOf(x, (value) => (value - middle) ** 2);
  const sum = square + epsilon;
  const ofSquare = square * (g + (kind === "layer" ? 10 : 6) * eps) + shift ** 2 + 2 ** -126;
  return {
    ...{ middle, shift, inverse: 1 / Math.sqrt(sum) },
    ofInverse: rootError(ofSquare / sum) + 5 * eps,
  };
}

function meanOf(values: Float64Array, term: (value: number) => number): number {
  let sum = 0;
  // Around the first term, so that equal terms have exactly their mean.
  const first = term(values[0]!);
  for (let i = 1; i < values.length; i++) sum += term(values[i]!) - first;
  return first + sum / values.length;
}

/** The relative error of 1 / sqrt(s), given that of s: without bound where nothing of s may be left. */
function rootError(error: number): number {
  return error < 1 ? 1 / Math.sqrt(1 - error) - 1 : 2 ** 100;
}

/** For the magnitudes above. */
export function normalizeTolerance(dtype: FloatType, numerics: Numerics): Tolerance {
  return (value, magnitude) => magnitude * eps + underflow(3, numerics) + storage(dtype, value, numerics);
}

export const evaluate: Evaluate<NormalizeProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, weight, bias, mean, inverseDeviation } = problem;
  const inputs = {
    input: memory.read(problem.input, dtype),
    weight: weight && memory.read(weight, dtype),
    bias: bias && memory.read(bias, dtype),
  };
  const tolerance = numerics && normalizeTolerance(dtype, numerics);
  const ofStatistics = numerics && normalizeTolerance("f32", numerics);
  normalize(problem, inputs, {
    output: emitting(memory.write(problem.output, dtype), tolerance),
    mean: mean && emitting(memory.write(mean, "f32"), ofStatistics),
    inverseDeviation: inverseDeviation && emitting(memory.write(inverseDeviation, "f32"), ofStatistics),
  });
};
