import type { FloatType, NormalizeGradientProblem, Numerics } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { epsilon as eps, storage, type Tolerance, underflow } from "../../tolerance.js";
import { type RowStatistics, statisticsOf, sumError } from "../normalize/formula.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";

export type NormalizeGradientShape = Pick<
  NormalizeGradientProblem<unknown>,
  "kind" | "rows" | "size" | "epsilon"
>;

export interface NormalizeGradientInputs {
  readonly input: Float64Array;
  readonly weight?: Float64Array | undefined;
  readonly outputGradient: Float64Array;
  readonly mean?: Float64Array | undefined;
  readonly inverseDeviation?: Float64Array | undefined;
  /** What the sums are added to. */
  readonly weightGradient?: Float64Array | undefined;
  readonly biasGradient?: Float64Array | undefined;
}

/** What takes the elements of each output. */
export interface NormalizeGradientOutputs {
  readonly inputGradient?: Emit | undefined;
  readonly weightGradient?: Emit | undefined;
  readonly biasGradient?: Emit | undefined;
}

/**
 * The magnitude of a result is its error in units of epsilon, if every step is as inaccurate as WGSL allows. With e(n) the
 * relative error of a sum of n terms, and m and r those of normalize, with its errors, or given exactly:
 *
 * - h = (x - m) r is off by r times the error of m and 3 |x - m|, and by |h| times the error of r and 2;
 * - g = dy weight by one unit; mean(g) by e(size) + 4 (the product, a division of 2.5) of mean(|g|);
 * - mean(g h) by the mean of |g| times the error of h, and e(size) + 6 of mean(|g h|);
 * - the input's gradient by the error of r, and r times that of g - mean(g) - h mean(g h): the errors of its terms, and 5
 *   roundings of their magnitudes;
 * - the weight's gradient by the sum of |dy| times the error of h and e(rows) + 1 of the sum of |dy h|, that of the bias
 *   by e(rows) of the sum of |dy|; what they are added to costs another rounding of both.
 */
export function normalizeGradient(
  { kind, rows, size, epsilon }: NormalizeGradientShape,
  inputs: NormalizeGradientInputs,
  outputs: NormalizeGradientOutputs,
  sumErrorOf: (n: number) => number = sumError,
): void {
  const { input, weight, outputGradient, mean, inverseDeviation } = inputs;
  const isLayer = kind === "layer";
  const ofRow = sumErrorOf(size);
  const ofColumn = sumErrorOf(rows);
  const sums = [new Float64Array(size), new Float64Array(size)] as const;
  const errors = [new Float64Array(size), new Float64Array(size)] as const;
  const normalized = new Float64Array(size);
  const ofNormalized = new Float64Array(size);
  const needsInput = outputs.inputGradient !== undefined || outputs.weightGradient !== undefined;
  for (let row = 0; row < rows; row++) {
    const first = row * size;
    if (!needsInput) {
      for (let i = 0; i < size; i++) {
        const dy = outputGradient[first + i]!;
        sums[1][i]! += dy;
        errors[1][i]! += ofColumn * Math.abs(dy);
      }
      continue;
    }
    const x = input.subarray(first, first + size);
    const { middle, shift, inverse, ofInverse }: RowStatistics =
      inverseDeviation === undefined
        ? statisticsOf({ kind, epsilon }, x, sumErrorOf)
        : { middle: mean?.[row] ?? 0, shift: 0, inverse: inverseDeviation[row]!, ofInverse: 0 };
    // Nothing says that what is given is positive.
    const scale = Math.abs(inverse);
    let [meanG, sizeG, meanGh, sizeGh, errorGh] = [0, 0, 0, 0, 0];
    for (let i = 0; i < size; i++) {
      const difference = x[i]! - middle;
      const h = difference * inverse;
      const ofDifference = isLayer ? shift + 3 * eps * Math.abs(difference) : 0;
      const error = scale * ofDifference * (1 + ofInverse) + Math.abs(h) * (ofInverse + 2 * eps);
      normalized[i] = h;
      ofNormalized[i] = error;
      const dy = outputGradient[first + i]!;
      const g = dy * (weight?.[i] ?? 1);
      meanG += g;
      sizeG += Math.abs(g);
      meanGh += g * h;
      sizeGh += Math.abs(g * h);
      errorGh += Math.abs(g) * error;
      sums[0][i]! += dy * h;
      errors[0][i]! += Math.abs(dy) * error + (ofColumn + eps) * Math.abs(dy * h);
      sums[1][i]! += dy;
      errors[1][i]! += ofColumn * Math.abs(dy);
    }
    if (outputs.inputGradient === undefined) continue;
    meanG = isLayer ? meanG / size : 0;
    meanGh /= size;
    const ofMeanG = isLayer ? (ofRow + 4 * eps) * (sizeG / size) : 0;
    const ofMeanGh = errorGh / size + (ofRow + 6 * eps) * (sizeGh / size);
    for (let i = 0; i < size; i++) {
      const h = normalized[i]!;
      const g = outputGradient[first + i]! * (weight?.[i] ?? 1);
      const value = inverse * (g - meanG - h * meanGh);
      const terms = Math.abs(g) + Math.abs(meanG) + Math.abs(h * meanGh);
      const ofTerms =
        ofMeanG + Math.abs(h) * ofMeanGh + ofNormalized[i]! * (Math.abs(meanGh) + ofMeanGh) + 5 * eps * terms;
      const error = scale * ofTerms * (1 + ofInverse) + Math.abs(value) * (ofInverse + 2 * eps);
      outputs.inputGradient(first + i, value, error / eps);
    }
  }
  for (const [j, name] of (["weightGradient", "biasGradient"] as const).entries()) {
    const before = inputs[name];
    for (let i = 0; i < size; i++) {
      const old = before?.[i] ?? 0;
      const value = old + sums[j]![i]!;
      const ofTotal = before === undefined ? 0 : Math.abs(value) + Math.abs(sums[j]![i]!);
      outputs[name]?.(i, value, errors[j]![i]! / eps + ofTotal);
    }
  }
}

/** For the magnitudes above. Products of a row, or of a column, may underflow. */
export function normalizeGradientTolerance(
  { rows, size }: Pick<NormalizeGradientShape, "rows" | "size">,
  dtype: FloatType,
  numerics: Numerics,
): Tolerance {
  const small = underflow(rows + size + 4, numerics);
  return (value, magnitude) => magnitude * eps + small + storage(dtype, value, numerics);
}

export const evaluate: Evaluate<NormalizeGradientProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, accumulate, weight, mean, inverseDeviation } = problem;
  const { inputGradient, weightGradient, biasGradient } = problem;
  const needsInput = inputGradient !== undefined || weightGradient !== undefined;
  const nothing = new Float64Array(0);
  const inputs = {
    input: needsInput ? memory.read(problem.input, dtype) : nothing,
    outputGradient: memory.read(problem.outputGradient, dtype),
    weight: inputGradient && weight && memory.read(weight, dtype),
    mean: needsInput && mean ? memory.read(mean, "f32") : undefined,
    inverseDeviation: needsInput && inverseDeviation ? memory.read(inverseDeviation, "f32") : undefined,
    weightGradient: accumulate && weightGradient ? memory.read(weightGradient, dtype) : undefined,
    biasGradient: accumulate && biasGradient ? memory.read(biasGradient, dtype) : undefined,
  };
  const tolerance = numerics && normalizeGradientTolerance(problem, dtype, numerics);
  const emit = (region: typeof inputGradient) => region && emitting(memory.write(region, dtype), tolerance);
  normalizeGradient(problem, inputs, {
    inputGradient: emit(inputGradient),
    weightGradient: emit(weightGradient),
    biasGradient: emit(biasGradient),
  });
};
