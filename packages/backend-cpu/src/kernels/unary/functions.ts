import type { Accuracy, UnaryKind } from "@backplane/core";
import { f32x4, i32x4, v128 } from "../../wasm/index.js";
import type { FormType } from "../elements/index.js";
import {
  arctangent,
  binaryLogarithm,
  exponential,
  exponentialOfTwo,
  logarithm,
  logarithmOfOnePlus,
  sharedConstants,
} from "../math/index.js";
import { activationFunctions } from "./activations.js";
import { arccosine, arcsine } from "./arcs.js";
import { type Emit, few, long, short, type UnaryFunction, type Units } from "./forms.js";
import { erf } from "./gaussian.js";
import { areaCosine, areaSine, areaTangent, hyperbolicCosine, hyperbolicSine } from "./hyperbolic.js";
import { exponentialLessOne, sigmoid, softplus, tanh } from "./logistic.js";
import { cosine, sine, tangent, trigonometryScratchBytes } from "./trigonometry.js";

const trigonometric = (units: Units, emit: Emit): UnaryFunction => ({
  f32: { emit, unroll: 1, scratchBytes: trigonometryScratchBytes },
  units,
});
/** The bits of |x| compared with those of Infinity. */
const test = (compare: "gtS" | "eq" | "ltS"): UnaryFunction =>
  short("exact", (f) => {
    const size = f.let(i32x4.const(0x7fffffff));
    const infinity = f.let(f32x4.const(Number.POSITIVE_INFINITY));
    return (x) => i32x4.shrU(i32x4[compare](v128.and(x, size), infinity), 31);
  });
/** Adds the forms of integers, which are the same for either sign. */
const withIntegers = (floats: UnaryFunction, signed: Emit, unsigned: Emit = signed): UnaryFunction => ({
  ...floats,
  i32: few(signed),
  u32: few(unsigned),
});

/** The one table of unary functions: kernels, operation, declared accuracy and tests are made from it. */
export const unaryFunctions: Readonly<Record<UnaryKind, UnaryFunction>> = {
  ...activationFunctions,
  sigmoid: long(2.75, sigmoid),
  tanh: long(3, tanh),
  exp: long(1.25, exponential),
  expm1: long(2, exponentialLessOne),
  exp2: long(1.25, exponentialOfTwo),
  log: long(1, logarithm),
  log1p: long(1.75, logarithmOfOnePlus),
  log2: long(1.25, binaryLogarithm),
  sqrt: short(0.5, () => f32x4.sqrt),
  rsqrt: short(1.75, (f) => {
    const { one } = sharedConstants(f);
    return (x) => f32x4.div(one, f32x4.sqrt(x));
  }),
  reciprocal: short(0.5, (f) => {
    const { one } = sharedConstants(f);
    return (x) => f32x4.div(one, x);
  }),
  abs: withIntegers(
    short("exact", () => f32x4.abs),
    () => i32x4.abs,
    () => (x) => x,
  ),
  neg: withIntegers(
    short("exact", () => f32x4.neg),
    () => i32x4.neg,
  ),
  square: withIntegers(
    short(0.5, (f) => (argument) => {
      const x = f.let(argument);
      return f32x4.mul(x, x);
    }),
    (f) => (argument) => {
      const x = f.let(argument);
      return i32x4.mul(x, x);
    },
  ),
  sin: trigonometric(1.75, sine),
  cos: trigonometric(1.75, cosine),
  tan: trigonometric(4, tangent),
  asin: long(1.75, arcsine),
  acos: long(1.25, arccosine),
  atan: long(2, arctangent),
  sinh: long(2.5, hyperbolicSine),
  cosh: long(1.5, hyperbolicCosine),
  asinh: long(2, areaSine),
  acosh: long(2.5, areaCosine),
  atanh: long(2.5, areaTangent),
  floor: short("exact", () => f32x4.floor),
  ceil: short("exact", () => f32x4.ceil),
  round: short("exact", () => f32x4.nearest),
  trunc: short("exact", () => f32x4.trunc),
  sign: withIntegers(
    short("exact", (f) => {
      const { zero, one, sign } = sharedConstants(f);
      // Zeros and NaN are their own signs.
      return (x) => {
        const ordered = v128.or(f32x4.lt(x, zero), f32x4.gt(x, zero));
        return f.choose(v128.or(one, v128.and(x, sign)), x, ordered);
      };
    }),
    (f) => {
      const one = f.let(i32x4.const(1));
      const minusOne = f.let(i32x4.const(-1));
      return (x) => i32x4.maxS(i32x4.minS(x, one), minusOne);
    },
    (f) => {
      const one = f.let(i32x4.const(1));
      return (x) => i32x4.minU(x, one);
    },
  ),
  erf: long(1.75, erf),
  softplus: long(2, softplus),
  isNaN: test("gtS"),
  isInfinite: test("eq"),
  isFinite: test("ltS"),
  logicalNot: {
    units: "exact",
    u8: few((f) => {
      const zero = f.let(i32x4.const(0));
      return (x) => i32x4.shrU(i32x4.eq(x, zero), 31);
    }),
  },
  not: { units: "exact", i32: few(() => v128.not), u32: few(() => v128.not) },
};

/** The kinds that an element type has. */
export function unaryKindsOf(form: FormType): readonly UnaryKind[] {
  return (Object.keys(unaryFunctions) as UnaryKind[]).filter(
    (kind) => unaryFunctions[kind][form] !== undefined,
  );
}

/** What `units` say, in the form of capabilities. */
export const unaryAccuracy: Accuracy["unary"] = Object.fromEntries(
  Object.entries(unaryFunctions).flatMap(([kind, { units }]) =>
    units === "exact" ? [] : [[kind, typeof units === "number" ? [{ units }] : units]],
  ),
);
