import type { FloatType, QuantizedBits } from "@backplane/core";
import { floatLayouts, input, type Storage, wgsl } from "../../program/index.js";

/** What the reading of B depends on. */
export interface WeightForm {
  readonly bits: QuantizedBits;
  readonly scaleType: FloatType;
  readonly hasZeroPoints: boolean;
}

export const weightParameters = {
  /** log2 of the weights of a block. */
  block_shift: "u32",
} as const;

export function weightBindings({ scaleType, hasZeroPoints }: WeightForm): Record<string, Storage> {
  return {
    b: input("byte"),
    scales: input(floatLayouts[scaleType].single),
    ...(hasZeroPoints ? { zero_points: input("byte") } : {}),
  };
}

/** How a form differs in the name of a program. */
export function weightName({ bits, scaleType, hasZeroPoints }: WeightForm): string {
  return `${bits}_bits_${scaleType}${hasZeroPoints ? "_zeros" : ""}`;
}

/**
 * `scale_of` and `magic_of` of a block, by its number; and `steps_of` that returns four neighbouring weights of a word,
 * not yet scaled: the first ones or (4 bits) the last ones.
 *
 * The bits of a small whole number q below those of 2^23 are the f32 2^23 + q; less 2^23 + zero, which is `magic_of`, it
 * is q - zero, exactly. That is quicker than a conversion.
 */
export function weightFunctions({ bits, scaleType, hasZeroPoints }: WeightForm): string {
  const mask = 2 ** bits - 1;
  const shifts = [0, 1, 2, 3].map((i) => `${i * bits}u`).join(", ");
  return wgsl`
fn scale_of(block: u32) -> f32 {
  let at = parameters.scales_offset + block;
  return ${floatLayouts[scaleType].load("scales", "at")};
}

fn magic_of(block: u32) -> f32 {
  ${
    hasZeroPoints
      ? `let at = parameters.zero_points_offset + block;
  let zero = (zero_points[at >> 2u] >> (8u * (at & 3u))) & 255u;
  return bitcast<f32>(0x4b000000u | zero);`
      : `return ${2 ** 23 + 2 ** (bits - 1)}.0;`
  }
}

fn steps_of(word: u32, magic: f32) -> vec4f {
  let stored = (vec4u(word) >> vec4u(${shifts})) & vec4u(${mask}u);
  return bitcast<vec4f>(stored | vec4u(0x4b000000u)) - magic;
}
`;
}

/**
 * `eighth_of`: eight neighbouring weights as they are stored, by their number divided by eight, of which `low_word` has the
 * first four and `high_word` the last four for `steps_of`. B may begin at any byte, unless it is said to be aligned.
 */
export function loadEight({ bits }: WeightForm, aligned: boolean = false): string {
  return bits === 4 ? oneWord(aligned) : twoWords(aligned);
}

const start = "(parameters.b_offset >> 2u)";
const shift = "8u * (parameters.b_offset & 3u)";

const oneWord = (aligned: boolean): string => wgsl`
fn eighth_of(i: u32) -> u32 {
  let at = ${start} + i;
  ${
    aligned
      ? "return b[at];"
      : `let shift = ${shift};
  if (shift == 0u) { return b[at]; }
  return (b[at] >> shift) | (b[at + 1u] << (32u - shift));`
  }
}
fn low_word(stored: u32) -> u32 { return stored; }
fn high_word(stored: u32) -> u32 { return stored >> 16u; }
`;

const twoWords = (aligned: boolean): string => wgsl`
fn eighth_of(i: u32) -> vec2u {
  let at = ${start} + 2u * i;
  ${
    aligned
      ? "return vec2u(b[at], b[at + 1u]);"
      : `let shift = ${shift};
  let words = vec2u(b[at], b[at + 1u]);
  if (shift == 0u) { return words; }
  return (words >> vec2u(shift)) | (vec2u(words.y, b[at + 2u]) << vec2u(32u - shift));`
  }
}
fn low_word(stored: vec2u) -> u32 { return stored.x; }
fn high_word(stored: vec2u) -> u32 { return stored.y; }
`;
