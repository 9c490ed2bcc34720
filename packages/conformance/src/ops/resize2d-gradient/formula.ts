import type { FloatType, Numerics, Resize2dGradientProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { epsilon, gamma, storage, type Tolerance, underflow } from "../../tolerance.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";
import { betweenAll, partsOf, type Resize2dShape } from "../resize2d/formula.js";

/**
 * Gives each gradient to the elements that the result was made of, times their factors.
 *
 * The magnitude of a result is how far it may be off before it is stored. A weight w is off by 3 w eps, and 1 - w by that and
 * eps (see `resizeTolerance`), so a factor by 4 eps at most; a product of two factors s and t with a gradient g has 2
 * roundings, and is off by (4 s + 4 t + 2 s t) eps |g|. A sum of m terms, in any order, adds gamma_(m-1) times their sizes
 * (N. Higham, Accuracy and Stability, section 4.2).
 */
export function resizeGradient(shape: Resize2dShape, gradient: Float64Array, emit: Emit): void {
  const { planes, height, width, inner, rows, columns } = shape;
  const [sums, sizes, terms, errors] = [0, 0, 0, 0].map(
    () => new Float64Array(planes * height * width * inner),
  );
  const [rowParts, columnParts] = [rows.map(partsOf), columns.map(partsOf)];
  let index = 0;
  for (let plane = 0; plane < planes; plane++)
    for (const row of rowParts)
      for (const column of columnParts)
        for (let c = 0; c < inner; c++) {
          const g = gradient[index++]!;
          for (const [y, s] of row)
            for (const [x, t] of column) {
              const element = ((plane * height + y) * width + x) * inner + c;
              sums![element]! += s * t * g;
              sizes![element]! += s * t * Math.abs(g);
              terms![element]! += 1;
              if (s * t < 1) errors![element]! += (4 * s + 4 * t + 2 * s * t) * epsilon * Math.abs(g);
            }
        }
  for (const [i, sum] of sums!.entries())
    emit(i, sum, errors![i]! + gamma(Math.max(terms![i]! - 1, 0)) * sizes![i]!);
}

/** A result that is 0, or one gradient, is exact. */
export function resizeGradientTolerance(
  { rows, columns, height, width }: Resize2dShape,
  dtype: FloatType,
  numerics: Numerics,
): Tolerance {
  // Three roundings for each of the results that are made of one element, of which there may be twice the ratio and some more.
  const most = 4 * (rows.length / height + 2) * (columns.length / width + 2);
  const small = underflow(3 * most, numerics);
  return (value, magnitude) => (magnitude === 0 ? 0 : magnitude + small + storage(dtype, value, numerics));
}

export const evaluate: Evaluate<Resize2dGradientProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, outputGradient, inputGradient } = problem;
  const shape = betweenAll(problem);
  const gradient = memory.read(outputGradient, dtype);
  const tolerance = numerics && resizeGradientTolerance(shape, dtype, numerics);
  resizeGradient(shape, gradient, emitting(memory.write(inputGradient, dtype), tolerance));
};
