import type { ArithmeticKind } from "@backplane/core";
import { type FunctionBuilder, f32x4, type Value } from "../../wasm/index.js";
import { power } from "./power.js";

/** How one kind is computed on vectors of four f32. */
export interface BinaryFunction {
  /** Emits constants, to be called before the loop. */
  readonly emit: (f: FunctionBuilder) => (a: Value<"v128">, b: Value<"v128">) => Value<"v128">;
  /** Vectors per round of the loop. */
  readonly unroll: number;
}

const short = (compute: (a: Value<"v128">, b: Value<"v128">) => Value<"v128">): BinaryFunction => ({
  emit: () => compute,
  unroll: 4,
});

/** The one table of binary functions: kernels, operation and tests are made from it. */
export const binaryFunctions: Readonly<Record<ArithmeticKind, BinaryFunction>> = {
  add: short(f32x4.add),
  sub: short(f32x4.sub),
  mul: short(f32x4.mul),
  div: short(f32x4.div),
  max: short(f32x4.max),
  min: short(f32x4.min),
  pow: { emit: power, unroll: 1 },
};
