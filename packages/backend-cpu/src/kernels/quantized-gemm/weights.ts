import type { QuantizedBits } from "@backplane/core";
import {
  type Arg,
  type FunctionBuilder,
  f32x4,
  i8x16,
  i16x8,
  i32x4,
  type Local,
  type Value,
  v128,
} from "../../wasm/index.js";

/** Weights that are taken at once: every block has a whole number of these. */
export const unitWeights = 16;

export function unitBytes(bits: QuantizedBits): number {
  return (unitWeights * bits) / 8;
}

/** Lanes of 16 bits by turns from two vectors: the first four of each, or the last. */
const byTurns = (first: number): readonly number[] =>
  Array.from({ length: 16 }, (_, i) => 2 * (first + (i >> 2)) + (i & 1) + (i & 2 ? 16 : 0));

/**
 * Returns the 16 weights at an address, in four vectors of f32: the stored numbers less the zero point, which is in
 * every lane of 16 bits.
 */
export function loadWeights(
  f: FunctionBuilder,
  bits: QuantizedBits,
  address: Arg<"i32">,
  zero: Local<"v128">,
): readonly Local<"v128">[] {
  return stored(f, bits, address).flatMap((numbers) => {
    const steps = f.let(i16x8.sub(numbers, zero));
    return [
      f.let(f32x4.convertI32x4S(i32x4.extendLowI16x8S(steps))),
      f.let(f32x4.convertI32x4S(i32x4.extendHighI16x8S(steps))),
    ];
  });
}

/** The stored numbers, in lanes of 16 bits of two vectors. */
function stored(f: FunctionBuilder, bits: QuantizedBits, address: Arg<"i32">): readonly Value<"v128">[] {
  if (bits === 8) return [v128.load8x8U(address), v128.load8x8U(address, 8)];
  const bytes = f.let(v128.load8x8U(address));
  const low = f.let(v128.and(bytes, i16x8.const(15)));
  const high = f.let(i16x8.shrU(bytes, 4));
  return [i8x16.shuffle(byTurns(0), low, high), i8x16.shuffle(byTurns(4), low, high)];
}
