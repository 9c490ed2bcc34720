import type { UnitsRange } from "@backplane/core";
import type { MathFunctionName } from "../elementwise/index.js";

/** An expression in `x`, and the functions that it uses. */
export interface UnaryExpression {
  readonly expression: string;
  readonly uses?: readonly MathFunctionName[];
  /** Functions that only this kind has. */
  readonly source?: string;
}

/** One whose results are rounded. */
export interface InexactUnaryFunction extends UnaryExpression {
  /**
   * Declared as the function's accuracy: the largest errors measured on SwiftShader, lavapipe and an NVIDIA H200
   * (docs/numerics.md), and a tenth more, rounded up to a quarter. softplus has a quarter more, because it falls
   * by 3 units on lavapipe.
   */
  readonly units: readonly UnitsRange[];
}
