import type { FloatType, Numerics, SoftmaxKind, SoftmaxProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { epsilon, gamma, storage, type Tolerance, underflow } from "../../tolerance.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";

export type SoftmaxShape = Pick<SoftmaxProblem<unknown>, "kind" | "outer" | "length" | "inner">;

/**
 * The elements (o, j, i), at (o * length + j) * inner + i, row by row: a row runs along j. The magnitude of an
 * element is its error in units of epsilon, to first order and without that of adding up, if every step is as
 * inaccurate as WGSL allows. With x - m = -d:
 *
 * - a weight is off by the factor 1 + w: d from the difference, 3 + 2d from the exponential, and 4 from another
 *   exponential and a product, where weights are relative to the largest element so far;
 * - S by the mean of w, over the weights; that much is also the absolute error of ln S;
 * - e^(x - m) / S by w, S, and 3.5 for a reciprocal and a product;
 * - x - m - ln S by d, ln S, its logarithm (3 units, or 2^-21 below 2), and 1 for the last difference.
 */
export function softmax({ kind, outer, length, inner }: SoftmaxShape, input: Float64Array, emit: Emit): void {
  const distances = new Float64Array(length);
  const last = {
    softmax: (distance: number, sum: number, error: number): readonly [number, number] => {
      const value = Math.exp(-distance) / sum;
      return [value, value === 0 ? 0 : value * (weightError(distance) + error + 3.5)];
    },
    logSoftmax: (distance: number, sum: number, error: number): readonly [number, number] => {
      const logarithm = Math.log(sum);
      const value = 0 - distance - logarithm;
      return [value, distance + error + Math.max(3 * logarithm, 4) + Math.abs(value)];
    },
  }[kind];
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const first = o * length * inner + i;
      let largest = Number.NEGATIVE_INFINITY;
      for (let j = 0; j < length; j++) largest = Math.max(largest, input[first + j * inner]!);
      let [sum, error] = [0, 0];
      for (let j = 0; j < length; j++) {
        const distance = largest - input[first + j * inner]!;
        const weight = Math.exp(-distance);
        distances[j] = distance;
        sum += weight;
        if (weight !== 0) error += weight * weightError(distance);
      }
      for (let j = 0; j < length; j++) emit(first + j * inner, ...last(distances[j]!, sum, error / sum));
    }
}

function weightError(distance: number): number {
  return 7 + 3 * distance;
}

/**
 * For the magnitudes above. A row of n elements takes n - 1 additions, in any order, and with a maximum that
 * grows the sum so far is rescaled: 4 units, once for every four elements at most. That is a relative error of S, so an
 * absolute one of ln S. Weights, results and what is left of a sum may underflow.
 */
export function softmaxTolerance(
  kind: SoftmaxKind,
  n: number,
  dtype: FloatType,
  numerics: Numerics,
): Tolerance {
  const ofSum = n === 1 ? 0 : gamma(2 * n);
  const small = underflow(n + 2, numerics);
  const shareOf = { softmax: (value: number) => value, logSoftmax: () => 1 }[kind];
  return (value, magnitude) =>
    magnitude * epsilon + ofSum * shareOf(value) + small + storage(dtype, value, numerics);
}

/**
 * A sum that does not lose the small terms: 8 sqrt(n) half units instead of 2n whole ones. A running sum in f32
 * exceeds it from n = 10^5 on.
 */
export function longRow(kind: SoftmaxKind, n: number, dtype: FloatType, numerics: Numerics): Tolerance {
  const steps = softmaxTolerance(kind, 1, dtype, numerics);
  const ofSum = 8 * Math.sqrt(n) * (epsilon / 2);
  return (value, magnitude) => steps(value, magnitude) + ofSum * (kind === "softmax" ? value : 1);
}

export const evaluate: Evaluate<SoftmaxProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { kind, dtype, length, input, output } = problem;
  const values = memory.read(input, dtype);
  const tolerance = numerics && softmaxTolerance(kind, length, dtype, numerics);
  softmax(problem, values, emitting(memory.write(output, dtype), tolerance));
};
