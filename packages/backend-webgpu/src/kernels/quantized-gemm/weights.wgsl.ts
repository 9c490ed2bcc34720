import type { FloatType, QuantizedBits } from "@backplane/core";
import { type ElementType, floatLayouts, input, lines, type Storage, wgsl } from "../../program/index.js";

/** What the reading of B depends on. */
export interface WeightForm {
  readonly bits: QuantizedBits;
  readonly scaleType: FloatType;
  readonly hasZeroPoints: boolean;
  /** Neighbouring weights of a row that are read at a time, a *run*; it divides every block. */
  readonly run: Run;
  /** B begins at a multiple of 16 bytes; otherwise at any byte. */
  readonly alignedB: boolean;
}

export type Run = 8 | 16 | 32;

export const weightParameters = {
  /** log2 of the weights of a block. */
  block_shift: "u32",
} as const;

/** Words of a run. */
function wordsOf({ bits, run }: WeightForm): number {
  return (bits * run) / 32;
}

/** By the words that are read at a time. */
const vectors: Readonly<Record<number, ElementType>> = { 1: "u32", 2: "vec2u", 4: "vec4u" };

export function weightBindings(form: WeightForm): Record<string, Storage> {
  const { scaleType, hasZeroPoints, alignedB } = form;
  return {
    b: input(alignedB ? vectors[Math.min(wordsOf(form), 4)]! : "byte"),
    scales: input(floatLayouts[scaleType].single),
    ...(hasZeroPoints ? { zero_points: input("byte") } : {}),
  };
}

/** How a form differs in the name of a program. */
export function weightName({ bits, scaleType, hasZeroPoints, run, alignedB }: WeightForm): string {
  return `${bits}_bits_${scaleType}${hasZeroPoints ? "_zeros" : ""}_by_${run}${alignedB ? "" : "_byte"}`;
}

/**
 * `scale_of` and `magic_of` of a block, by its number; `run_of`, a run as it is stored, by its number; and `steps_of`,
 * which `quadOfRun` calls.
 *
 * The bits of a small whole number q, put among the bits of 2^e where they count as ones, make the f32 2^e + q; less
 * 2^e + zero, which is `magic_of`, it is q - zero, exactly. With e = 23 for the first weight of a half word, and less
 * for the others by as many bits as they lie higher, no weight has to be shifted, nor converted.
 */
export function weightFunctions(form: WeightForm): string {
  const { bits, scaleType, hasZeroPoints } = form;
  const shifts = [0, 1, 2, 3].map((i) => (i * bits) % 16);
  const vector = (value: (shift: number) => string | number) => shifts.map(value).join(", ");
  const powers = `vec4f(${vector((shift) => `${2 ** (23 - shift)}.0`)})`;
  return wgsl`
fn scale_of(block: u32) -> f32 {
  let at = parameters.scales_offset + block;
  return ${floatLayouts[scaleType].load("scales", "at")};
}

fn magic_of(block: u32) -> vec4f {
  ${
    hasZeroPoints
      ? `let at = parameters.zero_points_offset + block;
  let zero = (zero_points[at >> 2u] >> (8u * (at & 3u))) & 255u;
  return ${powers} + f32(zero);`
      : `return ${powers} + ${2 ** (bits - 1)}.0;`
  }
}

fn steps_of(word: u32, magic: vec4f) -> vec4f {
  let words = ${bits === 4 ? "vec4u(word)" : "vec4u(word, word, word >> 16u, word >> 16u)"};
  let own = words & vec4u(${vector((shift) => `${(2 ** bits - 1) * 2 ** shift}u`)});
  return bitcast<vec4f>(own | vec4u(${vector((shift) => `${(127 + 23 - shift) * 2 ** 23}u`)})) - magic;
}

struct Run { ${Array.from({ length: wordsOf(form) }, (_, i) => `word_${i}: u32`).join(", ")} }

fn run_of(i: u32) -> Run {
  ${form.alignedB ? alignedRun(wordsOf(form)) : runOfBytes(wordsOf(form))}
}
`;
}

/** WGSL expression: the weights 4 i to 4 i + 3 of a variable with a run, less their zero point, not yet scaled. */
export function quadOfRun({ bits }: WeightForm, run: string, i: number, magic: string): string {
  const bit = 4 * bits * i;
  const word = `${run}.word_${Math.floor(bit / 32)}`;
  return `steps_of(${bit % 32 === 0 ? word : `${word} >> ${bit % 32}u`}, ${magic})`;
}

function alignedRun(words: number): string {
  if (words === 1) return "return Run(b[parameters.b_offset + i]);";
  const each = Math.min(words, 4);
  const loads = words / each;
  const members = Array.from({ length: words }, (_, w) => `v_${Math.floor(w / each)}.${"xyzw"[w % each]}`);
  return `${lines(loads, (v) => `  let v_${v} = b[parameters.b_offset + ${loads}u * i + ${v}u];`)}
  return Run(${members.join(", ")});`;
}

function runOfBytes(words: number): string {
  const named = (name: string) => Array.from({ length: words }, (_, w) => `${name}_${w}`).join(", ");
  return `let at = (parameters.b_offset >> 2u) + ${words}u * i;
  let shift = 8u * (parameters.b_offset & 3u);
${lines(words, (w) => `  let own_${w} = b[at + ${w}u];`)}
  if (shift == 0u) { return Run(${named("own")}); }
  let own_${words} = b[at + ${words}u];
${lines(words, (w) => `  let joined_${w} = (own_${w} >> shift) | (own_${w + 1} << (32u - shift));`)}
  return Run(${named("joined")});`;
}
