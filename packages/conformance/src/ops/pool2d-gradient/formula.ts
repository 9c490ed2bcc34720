import type { FloatType, Numerics, Pool2dGradientProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { epsilon, gamma, storage, type Tolerance, underflow } from "../../tolerance.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";
import { type Pool2dShape, placesOf } from "../pool2d/formula.js";

/**
 * Gives the gradient of each window to the elements of the window. `indices` are those of a maximum.
 *
 * The magnitude of a result is how far it may be off before it is stored: m terms rounded in m - 1 additions, in any order
 * (N. Higham, Accuracy and Stability, section 4.2), and of a mean each is a product with a rounded reciprocal, as in `pool2d`.
 */
export function poolGradient(
  shape: Pool2dShape,
  gradient: Float64Array,
  indices: Float64Array | undefined,
  emit: Emit,
): void {
  const { planes, height, width, inner, outHeight, outWidth, countPadding } = shape;
  const y = { size: height, count: shape.kernelHeight, step: shape.strideY, spread: shape.dilationY };
  const x = { size: width, count: shape.kernelWidth, step: shape.strideX, spread: shape.dilationX };
  const [sums, sizes, terms] = [0, 0, 0].map(() => new Float64Array(planes * height * width * inner));
  const columns = Array.from({ length: outWidth }, (_, v) =>
    placesOf(v, { ...x, before: shape.left, after: shape.right }),
  );
  for (let u = 0; u < outHeight; u++) {
    const rows = placesOf(u, { ...y, before: shape.top, after: shape.bottom });
    for (let v = 0; v < outWidth; v++) {
      const window = rows.inside.flatMap((row) => columns[v]!.inside.map((column) => row * width + column));
      const counted = countPadding ? rows.counted * columns[v]!.counted : window.length;
      for (let plane = 0; plane < planes; plane++)
        for (let c = 0; c < inner; c++) {
          const index = ((plane * outHeight + u) * outWidth + v) * inner + c;
          const part = indices === undefined ? gradient[index]! / counted : gradient[index]!;
          for (const place of window) {
            if (indices !== undefined && indices[index] !== place) continue;
            const element = (plane * height * width + place) * inner + c;
            sums![element]! += part;
            sizes![element]! += Math.abs(part);
            terms![element]! += 1;
          }
        }
    }
  }
  const ofTerm = indices === undefined ? 3.5 * epsilon : 0;
  for (const [i, sum] of sums!.entries())
    emit(i, sum, (gamma(Math.max(terms![i]! - 1, 0)) + ofTerm) * sizes![i]!);
}

/** A result that is 0, or one gradient, is exact. */
export function poolGradientTolerance(
  { kernelHeight, kernelWidth }: Pool2dShape,
  dtype: FloatType,
  numerics: Numerics,
): Tolerance {
  const small = underflow(2 * kernelHeight * kernelWidth, numerics);
  return (value, magnitude) => (magnitude === 0 ? 0 : magnitude + small + storage(dtype, value, numerics));
}

export const evaluate: Evaluate<Pool2dGradientProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, outputGradient, indices, inputGradient } = problem;
  const gradient = memory.read(outputGradient, dtype);
  const places = indices && memory.read(indices, "i32");
  const tolerance = numerics && poolGradientTolerance(problem, dtype, numerics);
  poolGradient(problem, gradient, places, emitting(memory.write(inputGradient, dtype), tolerance));
};
