import type { DType } from "@backplane/core";
import type { Tensor } from "../tensor.js";
import type { Shape } from "../view/shape.js";

/** What a rule has to compute gradients from. */
export interface RuleContext<Attributes = unknown> {
  /** Of what is differentiated, at the result of the operation. */
  readonly gradient: Tensor;
  readonly attributes: Attributes;
  /** Number of inputs. */
  readonly count: number;
  /** An input, if the rule keeps that one. */
  input(i: number): Tensor;
  /** The result, if the rule keeps it. */
  output(): Tensor;
  /** How many further results the operation saved. */
  readonly savedCount: number;
  /** A further result that the operation saved. */
  saved(i: number): Tensor;
  shapeOf(i: number): Shape;
  dtypeOf(i: number): DType;
  /** Whether the gradient at an input is wanted. */
  needs(i: number): boolean;
}

/** The gradients at the inputs; undefined: zero, or not wanted. */
export type Gradients = readonly (Tensor | undefined)[];

/** How the gradient at the result of an operation becomes gradients at its inputs. */
export interface Rule<Attributes = unknown> {
  /** The inputs that it uses. */
  readonly inputs: readonly number[] | ((attributes: Attributes) => readonly number[]);
  /** Whether it uses the result. */
  readonly output: boolean;
  /** The inputs at which it has no gradients: they must not depend on what is watched. */
  readonly constant: readonly number[];
  gradients(context: RuleContext<Attributes>): Gradients;
}

export interface Kept<Attributes> {
  readonly inputs?: Rule<Attributes>["inputs"];
  readonly output?: boolean;
  readonly constant?: readonly number[];
}

export function rule<Attributes>(
  { inputs = [], output = false, constant = [] }: Kept<Attributes>,
  gradients: (context: RuleContext<Attributes>) => Gradients,
): Rule<Attributes> {
  return { inputs, output, constant, gradients };
}

/** Sums a gradient over the axes along which an operand of a shape was repeated. */
export function sumTo(gradient: Tensor, shape: Shape): Tensor {
  const added = gradient.rank - shape.length;
  const axes: number[] = [];
  for (let axis = 0; axis < gradient.rank; axis++) {
    const isRepeated = axis < added || (shape[axis - added] === 1 && gradient.shape[axis] !== 1);
    if (isRepeated) axes.push(axis);
  }
  if (axes.length === 0) return gradient;
  return gradient.sum(axes).reshape(...shape);
}
