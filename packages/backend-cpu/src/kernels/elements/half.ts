import { type FunctionBuilder, f32x4, i16x8, i32x4, type VectorFunction, v128 } from "../../wasm/index.js";

/**
 * binary16 to f32, exact: the four halves in the low 64 bits become four f32.
 *
 * With exponent and fraction moved to their places in an f32 the value is 2^-112 times too small,
 * for subnormal halves too (they become subnormal f32); a multiplication by 2^112 is exact. Infinity
 * and NaN come out with an exponent of 143 and get 255.
 */
export function widenHalves(f: FunctionBuilder): VectorFunction {
  const magnitudeBits = f.let(i32x4.const(0x7fff));
  const signBit = f.let(i32x4.const(0x8000));
  const largestFinite = f.let(i32x4.const(0x7bff));
  const exponentBits = f.let(i32x4.const(0x7f800000));
  const rescale = f.let(f32x4.const(2 ** 112));
  return (halves) => {
    const bits = f.let(i32x4.extendLowI16x8U(halves));
    const magnitude = f.let(v128.and(bits, magnitudeBits));
    const value = f32x4.mul(i32x4.shl(magnitude, 13), rescale);
    const special = v128.and(i32x4.gtS(magnitude, largestFinite), exponentBits);
    const sign = i32x4.shl(v128.and(bits, signBit), 16);
    return f.let(v128.or(v128.or(value, special), sign));
  };
}

/**
 * f32 to binary16, to nearest with ties to even: four halves in the low 64 bits of the result.
 *
 * With E the exponent of |x|, or -14 if that is more, |x| + 2^(E + 13) has the spacing 2^(E - 10) of halves
 * at that exponent, so the addition does the rounding. The fraction of the sum counts units of that spacing
 * (1024 to 2048, or fewer for subnormal halves), and a carry into 2048 flows into the exponent of the half.
 * |x| is first limited to 65536, which is the place of Infinity.
 */
export function narrowToHalves(f: FunctionBuilder): VectorFunction {
  const magnitudeBits = f.let(i32x4.const(0x7fffffff));
  const exponentBits = f.let(i32x4.const(0x7f800000));
  const limit = f.let(i32x4.const(0x47800000)); // 65536
  const smallestExponent = f.let(i32x4.const((127 - 14) << 23));
  const shiftUp = f.let(i32x4.const(13 << 23));
  const quietNan = f.let(i32x4.const(0x7e00));
  const signBit = f.let(i32x4.const(0x8000));
  return (x) => {
    const bits = f.let(x);
    const magnitude = f.let(v128.and(bits, magnitudeBits));
    const limited = f.let(i32x4.minS(magnitude, limit));
    const exponent = f.let(i32x4.maxS(v128.and(limited, exponentBits), smallestExponent));
    const spacer = f.let(i32x4.add(exponent, shiftUp));
    const units = i32x4.sub(f32x4.add(limited, spacer), spacer);
    const half = i32x4.add(units, i32x4.shrU(i32x4.sub(exponent, smallestExponent), 13));
    const orNan = f.choose(quietNan, half, i32x4.gtS(magnitude, exponentBits));
    const result = f.let(v128.or(orNan, v128.and(i32x4.shrU(bits, 16), signBit)));
    return f.let(i16x8.narrowI32x4U(result, result));
  };
}
