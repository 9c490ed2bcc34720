import type { FloatType } from "@backplane/core";
import {
  type FunctionBuilder,
  f32x4,
  i8x16,
  i16x8,
  i32x4,
  type Local,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementFormats } from "../elements/index.js";

/** Blocks whose scales are loaded at once. */
export const scalesAtOnce = 8;

type Eight = readonly [Local<"v128">, Local<"v128">];

type LoadEight = (address: Local<"i32">) => Eight;

/** How eight scales are loaded as f32, or eight zero points (u8) as i32. They emit constants at the place of the call. */
const eightOf: Readonly<Record<FloatType | "u8", (f: FunctionBuilder) => LoadEight>> = {
  f32: (f) => (address) => [f.let(v128.load(address)), f.let(v128.load(address, 16))],
  f16: eightHalves,
  u8: (f) => (address) => {
    const words = f.let(v128.load8x8U(address));
    return [f.let(i32x4.extendLowI16x8U(words)), f.let(i32x4.extendHighI16x8U(words))];
  },
};

/**
 * As `widenHalves`, for eight at once, in fewer instructions: the upper half of an f32 has the sign, the exponent and 7 bits of the
 * fraction of a half, and the lower half its other 3. Multiplied by 2^112 that is exact; infinities and NaN have all bits of the
 * exponent before.
 */
function eightHalves(f: FunctionBuilder): LoadEight {
  const magnitudeBits = f.let(i16x8.const(0x7fff));
  const upperBits = f.let(i16x8.const(0x8fff));
  const largestFinite = f.let(i16x8.const(0x7bff));
  const exponentBits = f.let(i16x8.const(0x7f80));
  const rescale = f.let(f32x4.const(2 ** 112));
  return (address) => {
    const halves = f.let(v128.load(address));
    const isSpecial = i16x8.gtS(v128.and(halves, magnitudeBits), largestFinite);
    const finite = v128.and(i16x8.shrS(halves, 3), upperBits);
    const upper = f.let(v128.or(finite, v128.and(isSpecial, exponentBits)));
    const lower = f.let(i16x8.shl(halves, 13));
    const four = (first: number): Local<"v128"> => {
      const lanes = Array.from({ length: 16 }, (_, i) => 2 * (first + (i >> 2)) + (i & 1) + (i & 2 ? 16 : 0));
      return f.let(f32x4.mul(i8x16.shuffle(lanes, lower, upper), rescale));
    };
    return [four(0), four(4)];
  };
}

/**
 * Brings the scales (as f32) or zero points (as i32) of four rows of B together, block by block: 16 bytes for each. `at`: those of
 * each row; up to `scalesAtOnce - 1` past `count` are read, and as many blocks past it written.
 */
export function gatherScales(
  f: FunctionBuilder,
  type: FloatType | "u8",
  at: readonly Local<"i32">[],
  to: Value<"i32">,
  count: Local<"i32">,
): void {
  const load = eightOf[type](f);
  const output = f.let(to);
  f.forRange(
    0,
    count,
    () => {
      const rows = at.map(load);
      for (const half of [0, 1] as const) {
        const [v0, v1, v2, v3] = rows.map((row) => row[half]) as [
          ...[Local<"v128">, Local<"v128">, Local<"v128">, Local<"v128">],
        ];
        const pairs = [shuffle32([0, 4, 1, 5], v0, v1), shuffle32([2, 6, 3, 7], v0, v1)].map((x) => f.let(x));
        const others = [shuffle32([0, 4, 1, 5], v2, v3), shuffle32([2, 6, 3, 7], v2, v3)].map((x) =>
          f.let(x),
        );
        for (const [i, pair] of pairs.entries()) {
          f.store(output, shuffle32([0, 1, 4, 5], pair, others[i]!), 64 * half + 32 * i);
          f.store(output, shuffle32([2, 3, 6, 7], pair, others[i]!), 64 * half + 32 * i + 16);
        }
      }
      for (const place of at) f.add(place, scalesAtOnce * elementFormats[type].bytes);
      f.add(output, 16 * scalesAtOnce);
    },
    { step: scalesAtOnce },
  );
}
