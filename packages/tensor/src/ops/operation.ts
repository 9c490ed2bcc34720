import type { Value } from "../value.js";

/**
 * An operation on values. It computes, or makes an expression, and knows nothing of gradients: those are in the table of
 * rules, under the same name.
 */
export interface TensorOperation<Attributes> {
  readonly name: string;
  /**
   * Returns the result; or a list of it and of further results, which the gradient needs: only if `saves`. The caller
   * owns one reference to each.
   */
  forward(inputs: readonly Value[], attributes: Attributes, saves: boolean): Value | Results;
}

export type Results = readonly [output: Value, ...saved: Value[]];

/** Defines an operation. */
export function operation<Attributes>(
  name: string,
  forward: TensorOperation<Attributes>["forward"],
): TensorOperation<Attributes> {
  return { name, forward };
}
