import type { MathFunctionName } from "../elementwise/index.js";

/** An expression in `x`, and the functions that it uses. */
export interface UnaryExpression {
  readonly expression: string;
  readonly uses?: readonly MathFunctionName[];
  /** Functions that only this kind has. */
  readonly source?: string;
}
