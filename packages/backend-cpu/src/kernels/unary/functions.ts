import type { UnaryKind } from "@backplane/core";
import { type FunctionBuilder, f32x4, type Local, v128 } from "../../wasm/index.js";
import type { VectorFunction } from "../vector/function.js";
import { sharedConstants } from "./math/emit.js";
import { exponential } from "./math/exponential.js";
import { erf, gelu } from "./math/gaussian.js";
import { logarithm } from "./math/logarithm.js";
import { geluTanh, sigmoid, silu, softplus, tanh } from "./math/logistic.js";
import { cosine, sine, trigonometryScratchBytes } from "./math/trigonometry.js";

/** How one kind is computed on vectors of four f32. */
export interface UnaryFunction {
  /** Emits constants, to be called before the loop. */
  readonly emit: (f: FunctionBuilder, scratch: Local<"i32">) => VectorFunction;
  /** Vectors per round of the loop: more for computations of a few instructions. */
  readonly unroll: number;
  readonly scratchBytes: number;
}

const short = (emit: UnaryFunction["emit"]): UnaryFunction => ({ emit, unroll: 4, scratchBytes: 0 });
const long = (emit: UnaryFunction["emit"]): UnaryFunction => ({ emit, unroll: 1, scratchBytes: 0 });
const trigonometric = (emit: UnaryFunction["emit"]): UnaryFunction => ({
  emit,
  unroll: 1,
  scratchBytes: trigonometryScratchBytes,
});

/** The one table of unary functions: kernels, operation and tests are made from it. */
export const unaryFunctions: Readonly<Record<UnaryKind, UnaryFunction>> = {
  // pmax keeps NaN and -0, and the addition gives them the sign of relu(0); max takes several instructions.
  relu: short((f) => {
    const { zero } = sharedConstants(f);
    return (x) => f32x4.add(f32x4.pmax(x, zero), zero);
  }),
  sigmoid: long(sigmoid),
  tanh: long(tanh),
  exp: long(exponential),
  log: long(logarithm),
  sqrt: short(() => f32x4.sqrt),
  rsqrt: short((f) => {
    const { one } = sharedConstants(f);
    return (x) => f32x4.div(one, f32x4.sqrt(x));
  }),
  reciprocal: short((f) => {
    const { one } = sharedConstants(f);
    return (x) => f32x4.div(one, x);
  }),
  abs: short(() => f32x4.abs),
  neg: short(() => f32x4.neg),
  sin: trigonometric(sine),
  cos: trigonometric(cosine),
  floor: short(() => f32x4.floor),
  ceil: short(() => f32x4.ceil),
  round: short(() => f32x4.nearest),
  sign: short((f) => {
    const { zero, one, sign } = sharedConstants(f);
    // Zeros and NaN are their own signs.
    return (x) => {
      const ordered = v128.or(f32x4.lt(x, zero), f32x4.gt(x, zero));
      return f.choose(v128.or(one, v128.and(x, sign)), x, ordered);
    };
  }),
  erf: long(erf),
  gelu: long(gelu),
  geluTanh: long(geluTanh),
  silu: long(silu),
  softplus: long(softplus),
};
