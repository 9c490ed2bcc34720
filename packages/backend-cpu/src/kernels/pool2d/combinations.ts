import type { Pool2dKind } from "@backplane/core";
import { type FunctionBuilder, f32x4, type Value, v128 } from "../../wasm/index.js";

type Vector = Value<"v128">;

/** How lanes of a window are put together. */
export interface Combination {
  /** Changes nothing. A constant. */
  readonly identity: Vector;
  readonly combine: (f: FunctionBuilder, a: Vector, b: Vector) => Vector;
}

export const combinations: Readonly<Record<Pool2dKind, Combination>> = {
  max: {
    identity: f32x4.const(Number.NEGATIVE_INFINITY),
    /**
     * Either order gives the larger number, and keeps a NaN of its first operand; a NaN with other bits set remains one. `max`
     * itself takes three times as many instructions on x64.
     */
    combine(f, a, b) {
      const [x, y] = [f.let(a), f.let(b)];
      return v128.or(f32x4.pmax(x, y), f32x4.pmax(y, x));
    },
  },
  mean: { identity: f32x4.const(-0), combine: (_f, a, b) => f32x4.add(a, b) },
};
