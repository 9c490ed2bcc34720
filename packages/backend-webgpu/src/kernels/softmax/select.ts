import type { FloatType } from "@backplane/core";
import {
  type ApplyPlan,
  type Extents,
  planApply as planRowApply,
  planRegisters as planRowRegisters,
  type RegisterPlan,
} from "../rows/index.js";

/** The facts on which plans depend. */
export interface SoftmaxShape extends Extents {
  readonly dtype: FloatType;
  /** Where the regions begin. */
  readonly inputOffset: number;
  readonly outputOffset: number;
}

/** As for rows of any kind; see there. */
export function planRegisters(shape: SoftmaxShape): RegisterPlan | undefined {
  return planRowRegisters(shape.dtype, shape, [shape.inputOffset, shape.outputOffset]);
}

export function planApply(shape: SoftmaxShape): ApplyPlan {
  return planRowApply(shape.dtype, shape, [shape.inputOffset], shape.outputOffset);
}
