import type { FloatType, Numerics, SoftmaxGradientProblem, SoftmaxKind } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { epsilon as eps, gamma, storage, type Tolerance, underflow } from "../../tolerance.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";

export type SoftmaxGradientShape = Pick<
  SoftmaxGradientProblem<unknown>,
  "kind" | "outer" | "length" | "inner"
>;

export interface SoftmaxGradientInputs {
  readonly output: Float64Array;
  readonly outputGradient: Float64Array;
}

/** A sum that does not lose small terms: 8 sqrt(n) half units. A running sum in f32 exceeds it from n = 10^5 on. */
export function longSumError(n: number): number {
  return 8 * Math.sqrt(n) * (eps / 2);
}

/** What one row takes of its elements, and what it makes of each of them: value and error. */
interface RowFormula {
  term(y: number, dy: number): number;
  result(y: number, dy: number, sum: number, sumError: number): readonly [value: number, error: number];
}

/**
 * Errors, if every step is as inaccurate as WGSL allows; g is that of a sum of n terms, relative to the sum of their
 * magnitudes:
 *
 * - D = sum of y dy is off by g (of n products and n - 1 additions), and y (dy - D), or y dy - y D, by |y| times that and
 *   two roundings of |dy| + |D|;
 * - S = sum of dy is off by g; e^y by 3 + 2 |y| units and its product with S by one more; their difference is rounded.
 *   Weights may underflow.
 */
const formulas: Readonly<Record<SoftmaxKind, RowFormula>> = {
  softmax: {
    term: (y, dy) => y * dy,
    result: (y, dy, sum, sumError) => [
      y * (dy - sum),
      Math.abs(y) * (sumError + 2 * eps * (Math.abs(dy) + Math.abs(sum))),
    ],
  },
  logSoftmax: {
    term: (_y, dy) => dy,
    result: (y, dy, sum, sumError) => {
      const weight = Math.exp(y);
      const value = dy - weight * sum;
      // 0 times the distance of -Infinity is no number.
      const ofWeight = weight === 0 ? 0 : (4 + 2 * Math.abs(y)) * weight;
      const product = Math.abs(sum) * (eps * ofWeight + 2 ** -126);
      return [value, weight * sumError + product + eps * Math.abs(value)];
    },
  },
};

/**
 * The elements (o, j, i), at (o * length + j) * inner + i, row by row: a row runs along j. The magnitude of an element is
 * its error in units of epsilon.
 */
export function softmaxGradient(
  { kind, outer, length, inner }: SoftmaxGradientShape,
  { output, outputGradient }: SoftmaxGradientInputs,
  emit: Emit,
  sumErrorOf: (n: number) => number = gamma,
): void {
  const { term, result } = formulas[kind];
  const g = sumErrorOf(length);
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const first = o * length * inner + i;
      let [sum, magnitude] = [0, 0];
      for (let j = 0; j < length; j++) {
        const one = term(output[first + j * inner]!, outputGradient[first + j * inner]!);
        sum += one;
        magnitude += Math.abs(one);
      }
      for (let j = 0; j < length; j++) {
        const at = first + j * inner;
        const [value, error] = result(output[at]!, outputGradient[at]!, sum, g * magnitude);
        emit(at, value, error / eps);
      }
    }
}

/** For the magnitudes above. Products of a row of n elements may underflow. */
export function softmaxGradientTolerance(n: number, dtype: FloatType, numerics: Numerics): Tolerance {
  const small = underflow(n + 2, numerics);
  return (value, magnitude) => magnitude * eps + small + storage(dtype, value, numerics);
}

export const evaluate: Evaluate<SoftmaxGradientProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, length, inputGradient } = problem;
  const inputs = {
    output: memory.read(problem.output, dtype),
    outputGradient: memory.read(problem.outputGradient, dtype),
  };
  const tolerance = numerics && softmaxGradientTolerance(length, dtype, numerics);
  softmaxGradient(problem, inputs, emitting(memory.write(inputGradient, dtype), tolerance));
};
