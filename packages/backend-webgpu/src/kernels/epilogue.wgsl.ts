import type { Activation, FloatType } from "@backplane/core";
import { wgsl } from "../program/index.js";
import { activationFunction } from "./unary/index.js";

/** The operations on a finished sum before it is rounded and stored; see `Activation` in core. */
export interface Epilogue {
  readonly bias?: boolean | undefined;
  readonly activation?: Activation | undefined;
}

/** How it differs in the name of a program. */
export function epilogueName({ bias, activation }: Epilogue): string {
  return `${bias ? "_bias" : ""}${activation === undefined ? "" : `_${activation}`}`;
}

/** By the type of results: whether they are rounded so much that shorter formulas do. */
const isRough: Readonly<Record<FloatType, boolean>> = { f32: false, f16: true };

/**
 * Returns `apply` and `apply_quad`, for results that are stored as `dtype`; nothing without an activation.
 * For a long activation, a loop keeps the text that drivers compile short.
 */
export function activationText(activation: Activation | undefined, dtype: FloatType): string {
  if (activation === undefined) return "";
  if (isRough[dtype] && hasTail(activation))
    return wgsl`
${halfActivation(activation, "apply", "f32")}
${halfActivation(activation, "apply_quad", "vec4f")}`;
  return wgsl`
${activationFunction(activation)}

fn apply_quad(values: vec4f) -> vec4f {
  ${
    hasTail(activation)
      ? `var results = values;
  for (var i = 0u; i < 4u; i++) { results[i] = apply(results[i]); }
  return results;`
      : "return vec4f(apply(values.x), apply(values.y), apply(values.z), apply(values.w));"
  }
}
`;
}

/**
 * x / (1 + 2^e(x)) with an odd e. silu and geluTanh are defined like this, and gelu has e(x) = log2((1 - Phi(x)) /
 * Phi(x)). Good for results that are rounded to f16: WGSL's own exp2 is within 3 + 2 |e| units of f32, and the
 * polynomial for gelu (a minimax fit as those of math.wgsl.ts) within 0.03 units of f16.
 *
 * Four at once: invocations that wait for one another while they finish results have nothing else to do. 4096^3
 * with gelu on an NVIDIA H200 reaches 281 TFLOP/s like this, and 201 with the formulas for f32 one after the other.
 */
function halfActivation(activation: TailedActivation, name: string, type: "f32" | "vec4f"): string {
  const words = type === "f32" ? "u32" : "vec4u";
  const { bound, coefficients } = halfExponents[activation];
  const ratio = coefficients.map((value) => `${type}(${value})`);
  return wgsl`
fn ${name}(x: ${type}) -> ${type} {
  let factor = max(x, ${type}(-${bound}));
  let near = min(factor, ${type}(${bound}));
  let square = near * near;
  let exponent = near * ${ratio.reduceRight((sum, next) => `fma(square, ${sum}, ${next})`)};
  let result = factor / (1.0 + exp2(exponent));
  return select(result, x, (bitcast<${words}>(x) & ${words}(0x7fffffffu)) > ${words}(0x7f800000u)); // NaN
}
`;
}

type TailedActivation = Exclude<Activation, "relu" | "relu6">;

interface HalfExponent {
  /** From here on results in f16 are x, and from its negative down -0. */
  readonly bound: number;
  /** Of e(x) / x within the bounds, by powers of x^2. */
  readonly coefficients: readonly number[];
}

const halfExponents: Readonly<Record<TailedActivation, HalfExponent>> = {
  silu: { bound: 21, coefficients: [-Math.LOG2E] },
  geluTanh: { bound: 5.8, coefficients: [-2.3022082, -0.10294324] },
  gelu: {
    bound: 5.8,
    coefficients: [
      ...[-2.30212665, -0.104950212, 0.000138404415, 0.000153819463],
      ...[-1.14445547e-5, 4.36071673e-7, -8.81722784e-9, 7.43195019e-11],
    ],
  },
};

/** The text of a value with the activation applied. */
export function activated(activation: Activation | undefined, value: string, isQuad = false): string {
  if (activation === undefined) return value;
  return `${isQuad ? "apply_quad" : "apply"}(${value})`;
}

/** Whether it falls to 0 as an exponential does: it is long to compute then, and some results are subnormal. */
export function hasTail(activation: Activation): activation is TailedActivation {
  return activation in halfExponents;
}

/**
 * Whether results are stored in loops: the operations on each are then long, and would be most of the kernel
 * if written out for all results of an invocation.
 */
export function storesInLoops({ activation }: Epilogue): boolean {
  return activation !== undefined && hasTail(activation);
}
