import { type DType, elementTypes } from "@backplane/core";
import { halfFunctions, wgsl } from "../../program/index.js";

/*
 * Elements are the low bits of a u32 word, in every type. Conversions are integer arithmetic, because WGSL leaves
 * rounding, overflow, NaN and subnormal numbers of floats to implementations. Two steps are not: unpack2x16float
 * (see `halfFunctions`), and f32() of i32, which has a choice only from 2^24 on, and rounds to nearest even wherever
 * that was tried.
 */

/** By the type of the element: its number as the bits of an f32, to nearest. */
const toFloat: Readonly<Record<DType, string>> = {
  f32: "bits",
  f16: "bitcast<u32>(unpack2x16float(bits).x)",
  i32: "bitcast<u32>(f32(bitcast<i32>(bits)))",
  u32: "bitcast<u32>(float_of(bits))",
  u8: "bitcast<u32>(f32(bits))",
  bf16: "bits << 16u",
};

/** By the type that a float becomes: from the bits of an f32. */
const fromFloat: Readonly<Record<DType, string>> = {
  f32: "number",
  f16: "half_bits(bitcast<f32>(number))",
  i32: "signed_bits(number)",
  u32: "unsigned_bits(number, 0x4f800000u, 0xffffffffu)",
  u8: "unsigned_bits(number, 0x43800000u, 0xffu)",
  bf16: "brain_bits(number)",
};

/** Of integers that would be rounded twice on their way to bf16; see `sticky_bits`. */
const sticky: Readonly<Partial<Record<DType, string>>> = {
  i32: "sticky_bits(given, u32(abs(bitcast<i32>(given))))",
  u32: "sticky_bits(given, given)",
};

/** Functions of the expressions of `convertedBits`, which may also call those of `halfFunctions`. */
export const conversionFunctions: string = wgsl`
/// SwiftShader rounds f32() of u32 twice. So the upper half of them is halved first; a last bit that is lost stays
/// in the one before, which f32 has no room for.
fn float_of(bits: u32) -> f32 {
  if (bits < 0x80000000u) { return f32(bitcast<i32>(bits)); }
  return 2.0 * f32(bitcast<i32>((bits >> 1u) | (bits & 1u)));
}

/// From infinity (a power of two, as the bits of an f32) on, the largest; 0 for negative numbers and NaN.
fn unsigned_bits(number: u32, infinity: u32, largest: u32) -> u32 {
  if (number > 0x7f800000u) { return 0u; }
  if (number >= infinity) { return largest; }
  return u32(bitcast<f32>(number));
}

fn signed_bits(number: u32) -> u32 {
  let magnitude = number & 0x7fffffffu;
  if (magnitude > 0x7f800000u) { return 0u; }
  if (magnitude >= 0x4f000000u) { return 0x7fffffffu + (number >> 31u); }
  return bitcast<u32>(i32(bitcast<f32>(number)));
}

fn brain_bits(number: u32) -> u32 {
  if ((number & 0x7fffffffu) > 0x7f800000u) { return (number >> 16u) | 0x40u; }
  return (number + 0x7fffu + ((number >> 16u) & 1u)) >> 16u;
}

/// An integer of more than 24 bits becomes exact in f32, but stays on its side of a tie of bf16: the low 8 bits
/// become one, which is set if any of them was. Otherwise it would be rounded twice.
fn sticky_bits(bits: u32, magnitude: u32) -> u32 {
  if (magnitude < 0x1000000u) { return bits; }
  return (bits & ~0xffu) | select(0x100u, 0u, (bits & 0xffu) == 0u);
}
`;

const isFloat = (dtype: DType): boolean => elementTypes[dtype].range === undefined;

/** A function of this name, from the bits of an element to those of another type; it calls `conversionFunctions`. */
export function conversionFunction(name: string, from: DType, to: DType): string {
  const head = `fn ${name}(given: u32) -> u32`;
  if (from === to) return `${head} { return given; }`;
  if (!isFloat(from) && !isFloat(to)) return `${head} { return ${to === "u8" ? "given & 0xffu" : "given"}; }`;
  return wgsl`${head} {
  let bits = ${(to === "bf16" ? sticky[from] : undefined) ?? "given"};
  let number = ${toFloat[from]};
  return ${fromFloat[to]};
}`;
}

/** The function `convert`, with all that it calls. */
export function conversion(from: DType, to: DType): string {
  const convert = conversionFunction("convert", from, to);
  const isPlain = from === to || (!isFloat(from) && !isFloat(to));
  return isPlain ? convert : [halfFunctions, conversionFunctions, convert].join("\n");
}
