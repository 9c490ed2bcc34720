import { refuse } from "../errors.js";
import { scope } from "../scope.js";
import type { Tensor } from "../tensor.js";

export interface Clipped {
  readonly gradients: Tensor[];
  /** Of the gradients as they were: the square root of the sum of all squares. */
  readonly norm: Tensor;
}

/** Gradients shortened together so that their norm is at most `most`. Nothing is read by the host. */
export function clipByNorm(gradients: readonly Tensor[], most: number): Clipped {
  if (!(most > 0)) refuse("clipByNorm", "most", `is ${most}; allowed: numbers above 0`);
  if (gradients.length === 0) refuse("clipByNorm", "gradients", "is empty; allowed: at least one tensor");
  return scope(() => {
    const sums = gradients.map((gradient) => gradient.cast("f32").square().sum());
    const norm = sums.reduce((sum, next) => sum.add(next)).sqrt();
    // The addend keeps a norm of 0 from a division by 0.
    const factor = norm.add(1e-6).reciprocal().mul(most).minimum(1).compute();
    return {
      norm: norm.compute(),
      gradients: gradients.map((gradient) => gradient.mul(factor.cast(gradient.dtype)).compute()),
    };
  });
}
