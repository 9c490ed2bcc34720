import type { FloatType, QuantizedBits } from "@backplane/core";
import { type ElementType, floatLayouts, input, lines, type Storage, wgsl } from "../../program/index.js";

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

/** How B is bound: as vectors if it lies at a multiple of 16 bytes, and as bytes if it may lie anywhere. */
export type StoredAs = Extract<ElementType, "vec4u" | "byte">;

export function weightBindings(
  { scaleType, hasZeroPoints }: WeightForm,
  storedAs: StoredAs,
): Record<string, Storage> {
  return {
    b: input(storedAs),
    scales: input(floatLayouts[scaleType].single),
    ...(hasZeroPoints ? { zero_points: input("byte") } : {}),
  };
}

/** How a form differs in the name of a program. */
export function weightName({ bits, scaleType, hasZeroPoints }: WeightForm): string {
  return `${bits}_bits_${scaleType}${hasZeroPoints ? "_zeros" : ""}`;
}

/**
 * `scale_of` and `magic_of` of a block, by its number; and `weights_of` that returns four neighbouring weights of a word,
 * the first ones or (4 bits) the last ones.
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

fn weights_of(word: u32, magic: f32, scale: f32) -> vec4f {
  let stored = (vec4u(word) >> vec4u(${shifts})) & vec4u(${mask}u);
  return (bitcast<vec4f>(stored | vec4u(0x4b000000u)) - magic) * scale;
}
`;
}

/** WGSL: \`name(i)\` returns ${"`count`"} words from byte 4 * count * i of B on, as a vector. */
export function loadStored(name: string, count: 1 | 2 | 4, storedAs: StoredAs): string {
  const type = count === 1 ? "u32" : `vec${count}u`;
  if (storedAs === "vec4u") {
    if (count !== 4) throw new RangeError("vectors are read whole");
    return wgsl`
fn ${name}(i: u32) -> vec4u { return b[parameters.b_offset + i]; }
`;
  }
  const all = (word: (i: number) => string) => Array.from({ length: count }, (_, i) => word(i)).join(", ");
  return wgsl`
fn ${name}(i: u32) -> ${type} {
  let word = (parameters.b_offset >> 2u) + ${count}u * i;
  let shift = 8u * (parameters.b_offset & 3u);
${lines(count, (j) => `  let word_${j} = b[word + ${j}u];`)}
  if (shift == 0u) { return ${type}(${all((j) => `word_${j}`)}); }
  let word_${count} = b[word + ${count}u];
  return ${type}(${all((j) => `(word_${j} >> shift) | (word_${j + 1} << (32u - shift))`)});
}
`;
}
