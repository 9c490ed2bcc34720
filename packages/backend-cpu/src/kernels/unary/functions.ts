import type { Accuracy, UnaryKind, UnitsRange } from "@backplane/core";
import { type FunctionBuilder, f32x4, type Local, type VectorFunction, v128 } from "../../wasm/index.js";
import { exponential, logarithm, sharedConstants } from "../math/index.js";
import { erf, gelu } from "./gaussian.js";
import { exponentialLessOne, geluTanh, sigmoid, silu, softplus, tanh } from "./logistic.js";
import { cosine, sine, trigonometryScratchBytes } from "./trigonometry.js";

/** How one kind is computed on vectors of four f32. */
export interface UnaryFunction {
  /** Emits constants, to be called before the loop. */
  readonly emit: (f: FunctionBuilder, scratch: Local<"i32">) => VectorFunction;
  /** Vectors per round of the loop: more for computations of a few instructions. */
  readonly unroll: number;
  readonly scratchBytes: number;
  /**
   * The largest errors, as in core's `Accuracy`: those measured on Node.js 20, 22 and 26 (docs/numerics.md), plus
   * a tenth, rounded up to a quarter. 0.5 is correct rounding. "exact": nothing is rounded.
   */
  readonly units: number | readonly UnitsRange[] | "exact";
}

type Emit = UnaryFunction["emit"];
type Units = UnaryFunction["units"];

const short = (units: Units, emit: Emit): UnaryFunction => ({ emit, unroll: 4, scratchBytes: 0, units });
const long = (units: Units, emit: Emit): UnaryFunction => ({ emit, unroll: 1, scratchBytes: 0, units });
const trigonometric = (units: Units, emit: Emit): UnaryFunction => ({
  emit,
  unroll: 1,
  scratchBytes: trigonometryScratchBytes,
  units,
});

/** The one table of unary functions: kernels, operation, declared accuracy and tests are made from it. */
export const unaryFunctions: Readonly<Record<UnaryKind, UnaryFunction>> = {
  // pmax keeps NaN and -0, and the addition gives them the sign of relu(0); max takes several instructions.
  relu: short("exact", (f) => {
    const { zero } = sharedConstants(f);
    return (x) => f32x4.add(f32x4.pmax(x, zero), zero);
  }),
  sigmoid: long(2.75, sigmoid),
  tanh: long(3, tanh),
  exp: long(1.25, exponential),
  expm1: long(2, exponentialLessOne),
  log: long(1, logarithm),
  sqrt: short(0.5, () => f32x4.sqrt),
  rsqrt: short(1.75, (f) => {
    const { one } = sharedConstants(f);
    return (x) => f32x4.div(one, f32x4.sqrt(x));
  }),
  reciprocal: short(0.5, (f) => {
    const { one } = sharedConstants(f);
    return (x) => f32x4.div(one, x);
  }),
  abs: short("exact", () => f32x4.abs),
  neg: short("exact", () => f32x4.neg),
  sin: trigonometric(1.75, sine),
  cos: trigonometric(1.75, cosine),
  floor: short("exact", () => f32x4.floor),
  ceil: short("exact", () => f32x4.ceil),
  round: short("exact", () => f32x4.nearest),
  sign: short("exact", (f) => {
    const { zero, one, sign } = sharedConstants(f);
    // Zeros and NaN are their own signs.
    return (x) => {
      const ordered = v128.or(f32x4.lt(x, zero), f32x4.gt(x, zero));
      return f.choose(v128.or(one, v128.and(x, sign)), x, ordered);
    };
  }),
  erf: long(1.75, erf),
  gelu: long([{ below: -1, units: 6.5 }, { below: 0, units: 4.5 }, { units: 3.25 }], gelu),
  geluTanh: long([{ below: -1, units: 3.5 }, { units: 2.5 }], geluTanh),
  silu: long([{ below: -1, units: 3.5 }, { units: 2.75 }], silu),
  softplus: long(2.25, softplus),
};

/** What `units` say, in the form of capabilities. */
export const unaryAccuracy: Accuracy["unary"] = Object.fromEntries(
  Object.entries(unaryFunctions).flatMap(([kind, { units }]) =>
    units === "exact" ? [] : [[kind, typeof units === "number" ? [{ units }] : units]],
  ),
);
