import type { Activation } from "@backplane/core";
import { wgsl } from "../../program/index.js";
import { mathFunctions } from "../elementwise/index.js";
import type { InexactUnaryFunction, UnaryExpression } from "./expression.js";

/** The kinds that products can apply to their results. They are apart, so that kernels of products bring no others along. */
export const activationFunctions: {
  readonly [Kind in Activation]: Kind extends "relu" | "relu6" ? UnaryExpression : InexactUnaryFunction;
} = {
  // Compares bits, from -0 to -infinity: max(x, 0) may give 0 for NaN, and flush subnormal numbers.
  relu: { expression: "select(x, 0.0, bitcast<u32>(x) - 0x80000000u <= 0x7f800000u)" },
  // Likewise, and from the first number above 6 to infinity.
  relu6: {
    expression: `select(select(x, 0.0, bitcast<u32>(x) - 0x80000000u <= 0x7f800000u), 6.0,
    bitcast<u32>(x) - 0x40c00001u <= 0x3ebfffffu)`,
  },
  gelu: {
    expression: "or_nan(x, gaussian_unit(x))",
    uses: ["error_complement", "settled", "or_nan"],
    units: [{ below: -1, units: 7.5 }, { below: 0, units: 4.25 }, { units: 2 }],
    // x Phi(x). Near 0 Phi is 1/2 + x Q(x^2); farther, for negative x, both would cancel. The complement does not. Both
    // are computed, as neighbours seldom take the same branch.
    source: wgsl`
fn gaussian_unit(x: f32) -> f32 {
  let z = x * x;
  let tail = fma(z, fma(z, fma(z, fma(z, -7.44507758e-6, 0.000112905187), -0.00118573982), 0.00997305928), -0.066490311);
  let near = x * fma(x, fma(z, tail, 0.398942278), 0.5);
  let bounded = clamp(x, -14.9, 14.9); // where one of both parts vanishes
  let size = abs(bounded);
  let high = upper_half(size);
  let more = 0.5 * (size - high) * (size + high);
  let complement = error_complement(fma(size, 0.424264069, 1.0), 0.5 * high * high, more);
  const half = 0.5 * decay_scale;
  let far = select(settled(bounded * complement) * half, x * fma(complement, -half, 1.0), x > 0.0);
  return select(far, near, abs(x) < 1.001);
}`,
  },
  // x (1 + tanh(u / 2)) / 2 with u = x (s + c x^2) is x sigmoid(u), which does not cancel.
  geluTanh: {
    expression: "or_nan(x, tanh_unit(x))",
    uses: ["times_logistic", "upper_half", "settled", "or_nan"],
    units: [{ below: -1, units: 4.5 }, { units: 3.25 }],
    // An error of u leads to a proportional error of the result, and u reaches 104. So u is the product of
    // two numbers of 12 bits, which is exact, and a small rest; s + c x^2 is one of the two, with a small
    // rest of its own.
    source: wgsl`
fn tanh_unit(x: f32) -> f32 {
  let size = min(abs(x), 10.9); // where the result is x or -0
  let high = upper_half(size);
  let low = size - high;
  let square = size * size;
  let square_high = upper_half(square);
  let square_low = fma(low, size + high, settled(high * high - square_high));
  let slope = fma(square, 0.0713548163, 1.59576912); // c and s, of which 0.0713500977 and 1.59570312 are 12 bits
  let slope_high = upper_half(slope);
  let slope_low = settled(fma(square_high, 0.0713500977, 1.59570312 - slope_high))
    + fma(square_high, 4.71861635e-6, fma(square_low, 0.0713548163, 6.59966057e-5));
  return times_logistic(x, -high * slope_high, -fma(high, slope_low, low * slope));
}`,
  },
  silu: {
    expression: "or_nan(x, times_logistic(x, max(-abs(x), -110.0), 0.0))",
    uses: ["times_logistic", "or_nan"],
    units: [{ below: -1, units: 4.25 }, { units: 3.25 }],
  },
};

/** Returns `fn apply(x: f32) -> f32` and the functions that it calls. */
export function activationFunction(activation: Activation): string {
  const { expression, uses = [], source = "" }: UnaryExpression = activationFunctions[activation];
  return [mathFunctions(uses), source.trim(), `fn apply(x: f32) -> f32 { return ${expression}; }`].join(
    "\n\n",
  );
}
