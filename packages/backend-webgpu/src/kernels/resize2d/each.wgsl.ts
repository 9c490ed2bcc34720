import type { FloatType } from "@backplane/core";
import {
  type ElementType,
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { axisParameters, blendFunction, placeFunctions } from "./places.wgsl.js";

/** What an invocation writes: 16 bytes, a word, or the halves or bytes of one, of any elements; or numbers. */
export type EachUnit = "block" | "word" | "half" | "byte" | "f32" | "f16" | "vec4f" | "half4";

export interface EachTile {
  /** The first four copy the nearest element, the others blend numbers. */
  readonly unit: EachUnit;
  readonly byProduct: boolean;
}

interface UnitForm {
  readonly binding: ElementType;
  readonly value: "u32" | "vec4<u32>" | "f32" | "vec4f";
  readonly dtype: FloatType | undefined;
  /** So many units share a word, which one invocation writes. */
  readonly perWord: 1 | 2 | 4;
}

const forms: Readonly<Record<EachUnit, UnitForm>> = {
  block: { binding: "vec4u", value: "vec4<u32>", dtype: undefined, perWord: 1 },
  word: { binding: "u32", value: "u32", dtype: undefined, perWord: 1 },
  half: { binding: "half", value: "u32", dtype: undefined, perWord: 2 },
  byte: { binding: "byte", value: "u32", dtype: undefined, perWord: 4 },
  f32: { binding: "f32", value: "f32", dtype: "f32", perWord: 1 },
  f16: { binding: "half", value: "f32", dtype: "f16", perWord: 2 },
  vec4f: { binding: "vec4f", value: "vec4f", dtype: "f32", perWord: 1 },
  half4: { binding: "half4", value: "vec4f", dtype: "f16", perWord: 1 },
};

export function unitsPerWord(unit: EachUnit): 1 | 2 | 4 {
  return forms[unit].perWord;
}

type Parameter =
  | keyof typeof axisParameters
  | ("n" | "inner" | "height" | "width" | "out_height" | "out_width");

/** One unit of the output for each invocation, or those that share a word. Inner counts the units of a pixel. */
export function eachProgram({ unit, byProduct }: EachTile): Program<"source" | "output", Parameter> {
  const { binding, value, dtype, perWord } = forms[unit];
  const functions = dtype === undefined ? "" : floatLayouts[dtype].functions;
  return program({
    name: `resize_each_${unit}${byProduct ? "" : "_divided"}`,
    bindings: { source: input(binding), output: output(binding) },
    parameters: {
      ...axisParameters,
      ...{ n: "u32", inner: "u32", height: "u32", width: "u32", out_height: "u32", out_width: "u32" },
    },
    body: wgsl`
${workgroupIndex}
${functions}
${placeFunctions(byProduct)}
${dtype === undefined ? "" : blendFunction(value as "f32" | "vec4f")}

fn load(at: u32) -> ${value} {
  ${loadText(unit)}
}

fn result_of(unit: u32) -> ${value} {
  let pixel = unit / parameters.inner;
  let row = pixel / parameters.out_width;
  let plane = row / parameters.out_height;
  let y = row_of(i32(row - plane * parameters.out_height));
  let x = column_of(i32(pixel - row * parameters.out_width));
  let line = (plane * parameters.height + u32(y.lower)) * parameters.width;
  let at = parameters.source_offset + (line + u32(x.lower)) * parameters.inner + unit - pixel * parameters.inner;
${
  dtype === undefined
    ? "  return load(at);"
    : wgsl`
  let right = at + select(0u, parameters.inner, x.weight > 0.0);
  let below = select(0u, parameters.width * parameters.inner, y.weight > 0.0);
  let top = blend(load(at), load(right), x.weight);
  let bottom = blend(load(at + below), load(right + below), x.weight);
  return blend(top, bottom, y.weight);`
}
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
${perWord > 1 ? sharedWord(dtype, perWord) : wholeUnit(unit)}
}
`,
  });
}

function loadText(unit: EachUnit): string {
  const { dtype, perWord, value } = forms[unit];
  if (dtype === undefined) return perWord === 1 ? "return source[at];" : `return ${partOf(perWord)};`;
  if (value === "f32") return `return ${floatLayouts[dtype].load("source", "at")};`;
  return `let block = source[at]; return ${floatLayouts[dtype].unpacked("block")};`;
}

function wholeUnit(unit: EachUnit): string {
  const { dtype, value } = forms[unit];
  return wgsl`
  if (index >= parameters.n) { return; }
  let value = result_of(index);
  output[parameters.output_offset + index] = ${dtype !== undefined && value === "vec4f" ? floatLayouts[dtype].packed("value") : "value"};`;
}

/** WGSL expression: the element at `at` of several in a word. */
function partOf(perWord: number): string {
  const bits = 32 / perWord;
  return `(source[at >> ${Math.log2(perWord)}u] >> (${bits}u * (at & ${perWord - 1}u))) & ${2 ** bits - 1}u`;
}

/** The units of a word, some of which may lie outside the output. */
function sharedWord(dtype: FloatType | undefined, perWord: number): string {
  const bits = 32 / perWord;
  return wgsl`
  let word = (parameters.output_offset >> ${Math.log2(perWord)}u) + index;
  if (${perWord}u * word >= parameters.output_offset + parameters.n) { return; }
  var result = output[word];
${lines(
  perWord,
  (k) => wgsl`
  // Wraps round to a large number in front of the region.
  let unit_${k} = ${perWord}u * word + ${k}u - parameters.output_offset;
  if (unit_${k} < parameters.n) {
    let value = result_of(unit_${k});
    ${
      dtype === undefined
        ? `result = (result & ${~((2 ** bits - 1) << (bits * k)) >>> 0}u) | (value << ${bits * k}u);`
        : `result = with_half(result, ${k}u, value);`
    }
  }`,
)}
  output[word] = result;`;
}
