import { type FunctionBuilder, f32x4 } from "../../wasm/index.js";
import { polynomial, sharedConstants, type Vector, type VectorLocal } from "./emit.js";

/** (sin(x) / x - 1) / x^2 in powers of x^2, near-minimax on |x| <= pi / 4 for sin (2^-32.5). */
const sineCoefficients = [
  -0.1666666716337204, 0.008333379402756691, -0.00019853064441122115, 2.8325100629444933e-6,
];
/** (cos(x) - 1 + x^2 / 2) / x^4 in powers of x^2, near-minimax on |x| <= pi / 4 for cos (2^-33). */
const cosineCoefficients = [0.04166664555668831, -0.0013887309469282627, 2.4432327336398885e-5];

/** sin x and cos x for |x| <= pi / 4 */
export function sineAndCosine(
  f: FunctionBuilder,
): (x: VectorLocal) => { readonly sine: Vector; readonly cosine: Vector } {
  const { one, half } = sharedConstants(f);
  const sinePolynomial = polynomial(f, sineCoefficients);
  const cosinePolynomial = polynomial(f, cosineCoefficients);
  return (x) => {
    const z = f.let(f32x4.mul(x, x));
    return {
      sine: f.multiplyAdd(f32x4.mul(x, z), sinePolynomial(z), x),
      cosine: f.multiplyAdd(f32x4.mul(z, z), cosinePolynomial(z), f.multiplySubtract(half, z, one)),
    };
  };
}
