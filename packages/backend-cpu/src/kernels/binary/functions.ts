import type { Accuracy, ArithmeticKind } from "@backplane/core";
import { type FunctionBuilder, f32x4, type Value } from "../../wasm/index.js";
import { power } from "./power.js";

/** How one kind is computed on vectors of four f32. */
export interface BinaryFunction {
  /** Emits constants, to be called before the loop. */
  readonly emit: (f: FunctionBuilder) => (a: Value<"v128">, b: Value<"v128">) => Value<"v128">;
  /** Vectors per round of the loop. */
  readonly unroll: number;
  /** The largest error, as in core's `Accuracy`; 0.5 is correct rounding. "exact": nothing is rounded. */
  readonly units: number | "exact";
}

const short = (
  units: BinaryFunction["units"],
  compute: (a: Value<"v128">, b: Value<"v128">) => Value<"v128">,
): BinaryFunction => ({ emit: () => compute, unroll: 4, units });

/** The one table of binary functions: kernels, operation, declared accuracy and tests are made from it. */
export const binaryFunctions: Readonly<Record<ArithmeticKind, BinaryFunction>> = {
  add: short(0.5, f32x4.add),
  sub: short(0.5, f32x4.sub),
  mul: short(0.5, f32x4.mul),
  div: short(0.5, f32x4.div),
  max: short("exact", f32x4.max),
  min: short("exact", f32x4.min),
  pow: { emit: power, unroll: 1, units: 0.5 },
};

/** What `units` say, in the form of capabilities. */
export const binaryAccuracy: Accuracy["binary"] = Object.fromEntries(
  Object.entries(binaryFunctions).flatMap(([kind, { units }]) => (units === "exact" ? [] : [[kind, units]])),
);
