import { wgsl } from "./wgsl.js";

/**
 * half_bits rounds to nearest even by integer arithmetic, because pack2x16float leaves rounding and overflow to the
 * implementation. Overflow gives infinity, subnormals are kept.
 */
const integerPacking: string = wgsl`
fn half_bits(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  let sign = (bits >> 16u) & 0x8000u;
  let magnitude = bits & 0x7fffffffu;
  // Normal numbers first, by one comparison: from 2^-14 to 2^16, where 65520 and more round to infinity.
  if (magnitude - 0x38800000u < 0x0f000000u) {
    return sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13u) & 1u)) >> 13u);
  }
  if (magnitude > 0x38800000u) {
    return sign | select(0x7c00u, 0x7e00u, magnitude > 0x7f800000u);
  }
  // Multiples of 2^-24. A shift by 25 leaves nothing of the 24 bits, whatever the rounding.
  let shift = min(126u - (magnitude >> 23u), 25u);
  let significand = (magnitude & 0x7fffffu) | 0x800000u;
  return sign | ((significand + (1u << (shift - 1u)) - 1u + ((significand >> shift) & 1u)) >> shift);
}

fn pack_halves(low: f32, high: f32) -> u32 {
  return half_bits(low) | (half_bits(high) << 16u);
}
`;

const nativePacking = wgsl`
fn half_bits(value: f32) -> u32 {
  return pack2x16float(vec2f(value, 0.0));
}

fn pack_halves(low: f32, high: f32) -> u32 {
  return pack2x16float(vec2f(low, high));
}
`;

/**
 * Half-precision numbers kept two to a u32 word, low half first, on any adapter.
 *
 * Reading is free of races at every offset: `half_at(words[i >> 1u], i)`. Writing is not: two elements share
 * a word, so each word must be written by one invocation that keeps the half it does not own. Kernels that
 * cannot arrange that write f32 to scratch and call `storeHalves`, or enable f16 and bind `output("f16")`.
 *
 * Every normal half is exact in f32, so that unpack2x16float has no choice. It may flush subnormal ones, but none
 * of the adapters in docs/adapters.md does, and integer code takes nine instructions instead of one.
 */
export const halfFunctions: string = wgsl`
fn half_at(word: u32, index: u32) -> f32 {
  return unpack2x16float(word >> ((index & 1u) * 16u)).x;
}

fn quad_of(words: vec2u) -> vec4f {
  return vec4f(unpack2x16float(words.x), unpack2x16float(words.y));
}
${integerPacking}
/// The word with one of its halves (index & 1) replaced.
fn with_half(word: u32, index: u32, value: f32) -> u32 {
  let shift = (index & 1u) * 16u;
  return (word & ~(0xffffu << shift)) | (half_bits(value) << shift);
}
`;

const integerQuad = wgsl`
fn half_quad(values: vec4f) -> vec2u {
  let bits = bitcast<vec4u>(values);
  let sizes = bits & vec4u(0x7fffffffu);
  let odd = (sizes >> vec4u(13u)) & vec4u(1u);
  let normal = min((sizes - 0x38000000u + 0xfffu + odd) >> vec4u(13u), vec4u(0x7c00u));
  let shift = min(126u - (sizes >> vec4u(23u)), vec4u(25u));
  let significand = (sizes & vec4u(0x7fffffu)) | vec4u(0x800000u);
  let half = (vec4u(1u) << (shift - 1u)) - 1u;
  let subnormal = (significand + half + ((significand >> shift) & vec4u(1u))) >> shift;
  let number = select(normal, subnormal, sizes < vec4u(0x38800000u));
  let size = select(number, vec4u(0x7e00u), sizes > vec4u(0x7f800000u));
  let halves = ((bits >> vec4u(16u)) & vec4u(0x8000u)) | size;
  return halves.xz | (halves.yw << vec2u(16u));
}
`;

const nativeQuad = wgsl`
fn half_quad(values: vec4f) -> vec2u {
  return vec2u(pack2x16float(values.xy), pack2x16float(values.zw));
}
`;

/** half_bits of four at once. */
export const halfQuad: string = integerQuad;

const integerChoice = wgsl`
fn pack_quad(values: vec4f) -> vec2u {
  let bits = bitcast<vec4u>(values);
  let magnitudes = bits * 2u;
  // Others than those from 2^-14 to 65520, and zero.
  if (any((magnitudes - 0x71000000u >= vec4u(0x1dffe000u)) & (magnitudes != vec4u(0u)))) { return half_quad(values); }
  let rounded = bitcast<vec4f>((bits + 0xfffu + ((bits >> vec4u(13u)) & vec4u(1u))) & vec4u(0xffffe000u));
  return vec2u(pack2x16float(rounded.xy), pack2x16float(rounded.zw));
}
`;

const nativeChoice = wgsl`
fn pack_quad(values: vec4f) -> vec2u {
  return half_quad(values);
}
`;

/**
 * The same, but faster if none is subnormal, too large or NaN: they are rounded to 11 bits, so that
 * pack2x16float has no choice.
 */
export const packQuad: string = `${halfQuad}${integerChoice}`;

/**
 * `rounded_half_quad`: half_quad by integer arithmetic on every device, for numbers that are read back in the same kernel. A
 * compiler may take unpack2x16float(pack2x16float(x)) for x (NVIDIA's does), but not what was rounded before.
 */
export const roundedHalfQuad: string = integerQuad.replace("half_quad", "rounded_half_quad");

/** Texts may begin with one of these, without its first line break. */
const native = (
  [
    [integerPacking, nativePacking],
    [integerQuad, nativeQuad],
    [integerChoice, nativeChoice],
  ] as const
).map((pair) => pair.map((text) => text.trim()) as [string, string]);

/** Text with pack2x16float, one instruction in place of a dozen, for devices that round as it should: see `packsExactly`. */
export function withNativePacking(source: string): string {
  return native.reduce((text, [integer, packed]) => text.replace(integer, packed), source);
}
