import type { UnitsRange } from "@backplane/core";
import type { FunctionBuilder, Local, VectorFunction } from "../../wasm/index.js";
import type { FormType } from "../elements/index.js";

/** How one kind is computed on vectors of four lanes. */
export interface UnaryForm {
  /** Emits constants, to be called before the loop. */
  readonly emit: (f: FunctionBuilder, scratch: Local<"i32">) => VectorFunction;
  /** Vectors per round of the loop: more for computations of a few instructions. */
  readonly unroll: number;
  readonly scratchBytes: number;
}

/** One kind, for each type of lanes that it has. Results of tests are lanes of 1 or 0. */
export interface UnaryFunction extends Readonly<Partial<Record<FormType, UnaryForm>>> {
  /**
   * The largest errors of floats, as in core's `Accuracy`: those measured on Node.js 20, 22 and 26
   * (docs/numerics.md), plus a tenth, rounded up to a quarter. 0.5 is correct rounding. "exact": nothing is rounded.
   */
  readonly units: number | readonly UnitsRange[] | "exact";
}

export type Emit = UnaryForm["emit"];
export type Units = UnaryFunction["units"];

/** Returns a form of a few instructions. */
export function few(emit: Emit): UnaryForm {
  return { emit, unroll: 4, scratchBytes: 0 };
}

/** Returns a function of floats that takes a few instructions. */
export function short(units: Units, emit: Emit): UnaryFunction {
  return { f32: few(emit), units };
}

/** Returns a function of floats that takes many. */
export function long(units: Units, emit: Emit): UnaryFunction {
  return { f32: { emit, unroll: 1, scratchBytes: 0 }, units };
}
