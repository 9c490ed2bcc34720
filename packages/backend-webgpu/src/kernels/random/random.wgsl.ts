import type { RandomKind, RandomType } from "@backplane/core";
import {
  type ElementType,
  halfFunctions,
  linearBuiltins,
  lines,
  output,
  type ParameterType,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { mathFunctions, turnFunctions } from "../elementwise/index.js";
import { philoxParameterTypes } from "./philox.js";
import { BLOCKS, philoxFunctions } from "./philox.wgsl.js";

export interface RandomTile {
  readonly kind: RandomKind;
  readonly dtype: RandomType;
  /** Quads of the output have elements of two blocks. */
  readonly shifted: boolean;
}

/** Quads that one invocation writes: of the blocks that it computes together. */
export const QUADS: number = BLOCKS;

/** The quads of an invocation, in those of its workgroup. */
const quadPlaces = Array.from({ length: QUADS }, (_, i) => `${i * WORKGROUP_SIZE}u`);

/** How four elements of one type, a quad, are stored. */
interface QuadFormat {
  readonly binding: ElementType;
  readonly words: 1 | 2 | 4;
  /** The words of a variable `values`, and the functions that these call. */
  readonly packed: string;
  readonly functions?: string;
}

const floatPacked = "bitcast<vec4<u32>>(values)";
const bytes = "vec4<u32>(0u, 8u, 16u, 24u)";

const formats: Readonly<Record<RandomType, QuadFormat>> = {
  f32: { binding: "vec4u", words: 4, packed: floatPacked },
  u32: { binding: "vec4u", words: 4, packed: "values" },
  f16: {
    ...{ binding: "half4", words: 2 },
    packed: "vec2<u32>(pack_halves(values.x, values.y), pack_halves(values.z, values.w))",
    functions: halfFunctions,
  },
  u8: { binding: "u32", words: 1, packed: `dot(values << ${bytes}, vec4<u32>(1u))` },
};

/** Bytes of a quad. */
export function quadBytes(dtype: RandomType): number {
  return 4 * formats[dtype].words;
}

/** How elements come about: a function from the words of a block to its elements. */
interface Formula {
  readonly value: "f32" | "u32";
  readonly parameters: Readonly<Record<string, ParameterType>>;
  source(dtype: RandomType): string;
}

const uniformBits = { f32: 24, f16: 11 } as const;

const formulas: Readonly<Record<RandomKind, Formula>> = {
  bits: {
    ...{ value: "u32", parameters: {} },
    source: () => wgsl`
fn elements_of(words: vec4<u32>) -> vec4<u32> {
  return words;
}`,
  },

  uniform: {
    ...{ value: "f32", parameters: {} },
    source(dtype) {
      const bits = uniformBits[dtype as keyof typeof uniformBits];
      return wgsl`
fn elements_of(words: vec4<u32>) -> vec4<f32> {
  return vec4<f32>(words >> vec4<u32>(${32 - bits}u)) * ${2 ** -bits};
}`;
    },
  },

  normal: {
    ...{ value: "f32", parameters: { mean: "f32", deviation: "f32" } },
    source: () => wgsl`
${mathFunctions(["split_exponent", "log_near_one", "sine_of_parts"], turnFunctions)}

/// r (cos t, sin t): r^2 = -2 log((a + 1/2) / 2^32), t = 2 pi b / 2^32
fn normal_pair(a: u32, b: u32) -> vec2<f32> {
  // Close to 1 it is the difference from 1 that counts: from the root of 1/2 on, it is what is converted.
  let upper = a >= 0xb504f334u;
  let fraction = (f32(select(a, ~a, upper)) + 0.5) * 2.3283064365386963e-10;
  let parts = select(split_exponent(fraction), vec2<f32>(0.0, -fraction), vec2<bool>(upper));
  let logarithm = fma(parts.x, 0.693145752, fma(parts.x, 1.42860682e-6, log_near_one(parts.y)));
  let radius = sqrt(-2.0 * logarithm);
  let quarters = (b + 0x20000000u) >> 30u;
  let angle = f32(bitcast<i32>(b - (quarters << 30u))) * 1.4629180792671596e-9;
  return radius * vec2<f32>(sine_of_parts(angle, quarters + 1u), sine_of_parts(angle, quarters));
}

fn elements_of(words: vec4<u32>) -> vec4<f32> {
  let standard = vec4<f32>(normal_pair(words.x, words.y), normal_pair(words.z, words.w));
  return fma(standard, vec4<f32>(parameters.deviation), vec4<f32>(parameters.mean));
}`,
  },

  bernoulli: {
    ...{ value: "u32", parameters: { threshold: "u32" } },
    source: () => wgsl`
fn elements_of(words: vec4<u32>) -> vec4<u32> {
  return select(vec4<u32>(0u), vec4<u32>(1u), words < vec4<u32>(parameters.threshold));
}`,
  },
};

/**
 * Quad i has the elements from 4 i - before on, of those from 0 to below `count`, and the words of the blocks from
 * first + i on, or, if shifted, from word `shift` of them on, 1 to 3. Elements of other places keep their bits.
 */
export function randomProgram({ kind, dtype, shifted }: RandomTile): Program {
  const { binding, words, packed, functions = "" } = formats[dtype];
  const { value, parameters, source } = formulas[kind];
  const type = `vec4<${value}>`;
  return program({
    name: `random_${kind}_${dtype}${shifted ? "_shifted" : ""}`,
    bindings: { output: output(binding) },
    parameters: {
      ...{ count: "u32", before: "u32", first: "u32" },
      ...(shifted ? { shift: "u32" } : {}),
      ...philoxParameterTypes,
      ...parameters,
    } as Record<string, ParameterType>,
    body: wgsl`
${workgroupIndex}
${functions}
${philoxFunctions}
${source(dtype)}
${shifted ? joined(type) : ""}

fn store(quad: u32, values: ${type}) {
  // Wraps round to a large number in front of the region.
  let element = 4u * quad - parameters.before;
  if (4u * quad >= parameters.before + parameters.count) { return; }
  let result = ${packed};
  let place = parameters.output_offset + quad;
  if (element < parameters.count && parameters.count - element >= 4u) {
    output[place] = result;
    return;
  }
${lines(words, (word) => storePart(word, words))}
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let quad = workgroup_index(workgroup, workgroups) * ${QUADS * WORKGROUP_SIZE}u + lane;
  let first = parameters.first + quad + vec4<u32>(${quadPlaces.join(", ")});
  let blocks = random_blocks(first);${shifted ? "\n  let next = random_blocks(first + 1u);" : ""}
${lines(QUADS, (i) => {
  const own = `elements_of(blocks[${i}])`;
  return `  store(quad + ${quadPlaces[i]}, ${shifted ? `joined(${own}, elements_of(next[${i}]))` : own});`;
})}
}
`,
  });
}

/** The elements from word `shift` on. */
const joined = (type: string): string => wgsl`
fn joined(a: ${type}, b: ${type}) -> ${type} {
  switch parameters.shift {
    case 1u: { return ${type}(a.yzw, b.x); }
    case 2u: { return ${type}(a.zw, b.xy); }
    default: { return ${type}(a.w, b.xyz); }
  }
}`;

/** Stores those elements of one word of a quad that are in the region. */
function storePart(word: number, words: number): string {
  const perWord = 4 / words;
  const [stored, result] =
    words === 1 ? ["output[place]", "result"] : [`output[place][${word}]`, `result[${word}]`];
  const isWithin = (i: number) => `element + ${word * perWord + i}u < parameters.count`;
  if (perWord === 1) return `  if (${isWithin(0)}) { ${stored} = ${result}; }`;
  const bits = 32 / perWord;
  const masks = Array.from(
    { length: perWord },
    (_, i) => `select(0u, ${(2 ** bits - 1) * 2 ** (bits * i)}u, ${isWithin(i)})`,
  );
  return `  let mask_${word} = ${masks.join(" | ")};
  if (mask_${word} != 0u) { ${stored} = (${stored} & ~mask_${word}) | (${result} & mask_${word}); }`;
}
