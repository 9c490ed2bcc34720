import { type DType, elementTypes } from "@backplane/core";
import {
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
import { conversion } from "./convert.wgsl.js";
import { AXIS_ROWS, lineParameters, linePart, placeOf } from "./units.wgsl.js";

/** Words of each invocation of `lineWordsProgram`. */
export const wordsPerInvocation = 4;

/**
 * Copies elements of any size from and to any places. Each invocation writes one word of the output: it finds
 * which of the word's elements are results, and leaves the others as they are.
 *
 * The output consists of blocks that share no words. The outer axes lead from block to block, the others to the
 * places in a block. A place in a block is divided by the strides, from the largest on: each is longer than the smaller ones
 * reach together, so that the quotients are the indices, if there is an element.
 *
 * Everything counts bytes. Rows of the table: extent, stride of the input and of the output.
 */
export function wordsProgram(
  from: DType,
  to: DType,
): Program<
  "source" | "output",
  "start" | "blocks" | "block_words" | "block_bytes" | "outer" | "rank" | "axes"
> {
  const toBytes = elementTypes[to].bytes;
  return program({
    name: `copy_bytes_${from}_${to}`,
    bindings: { source: input("byte"), output: output("byte") },
    parameters: {
      ...({ start: "u32", blocks: "u32", block_words: "u32", block_bytes: "u32" } as const),
      ...({ outer: "u32", rank: "u32", axes: { rows: AXIS_ROWS } } as const),
    },
    light: true,
    body: wgsl`
${workgroupIndex}
${conversion(from, to)}
${loadOf(from)}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let block = index / parameters.block_words;
  if (block >= parameters.blocks) { return; }
  var first = vec2u(parameters.source_offset + parameters.start, parameters.output_offset);
  var rest = block;
  for (var axis = parameters.outer; axis > 0u; axis--) {
    let row = parameters.axes[axis - 1u];
    let next = rest / row.x;
    first += (rest - next * row.x) * row.yz;
    rest = next;
  }
  let word = (first.y >> 2u) + (index - block * parameters.block_words);
  var result = 0u;
  var written = 0u;
  for (var byte = 0u; byte < 4u; byte += ${toBytes}u) {
    // Wraps round to a large number in front of the block.
    var place = 4u * word + byte - first.y;
    if (place >= parameters.block_bytes) { continue; }
    var at = first.x;
    var is_result = true;
    for (var axis = parameters.outer; axis < parameters.rank; axis++) {
      let row = parameters.axes[axis];
      let i = place / row.z;
      place -= i * row.z;
      is_result &= i < row.x;
      at += i * row.y;
    }
    if (!is_result || place != 0u) { continue; }
    result |= convert(load(at)) << (8u * byte);
    written |= ${masks[toBytes]} << (8u * byte);
  }
  if (written == 0u) { return; }
  if (written != 0xffffffffu) { result |= output[word] & ~written; }
  output[word] = result;
}
`,
  });
}

const masks = { 4: "0xffffffffu", 2: "0xffffu", 1: "0xffu" } as const;

/** An element from any place, in bytes. */
function loadOf(dtype: DType): string {
  const { bytes } = elementTypes[dtype];
  const element = {
    4: "source[at >> 2u]",
    2: "(source[at >> 2u] >> (8u * (at & 2u))) & 0xffffu",
    1: "(source[at >> 2u] >> (8u * (at & 3u))) & 0xffu",
  } as const;
  return `fn load(at: u32) -> u32 { return ${element[bytes]}; }`;
}

/**
 * Copies as `wordsProgram` does, if blocks are lines along the last axis whose results follow one another. No place in
 * a line is divided; see `linePart`. `count`: of lines.
 */
export function lineWordsProgram(
  from: DType,
  to: DType,
): Program<"source" | "output", "count" | "lane_shift" | "parts" | "start" | "rank" | "axes"> {
  const { bytes } = elementTypes[to];
  const perWord = 4 / bytes;
  return program({
    name: `copy_bytes_${from}_${to}_in_lines`,
    bindings: { source: input("byte"), output: output("byte") },
    parameters: lineParameters,
    light: true,
    body: wgsl`
${workgroupIndex}
${conversion(from, to)}
${loadOf(from)}
${placeOf}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${linePart(wordsPerInvocation)}
  let first_word = at.y >> 2u;
  // Elements of the first word in front of the line.
  let before = (at.y & 3u) / ${bytes}u;
  ${lines(
    wordsPerInvocation,
    (i) => `let element${i} = (first + (${i}u << parameters.lane_shift)) * ${perWord}u - before;
  ${lines(perWord, (j) => `let value${i}_${j} = load(at.x + min(element${i} + ${j}u, units.x - 1u) * units.y);`)}`,
  )}
  ${lines(
    wordsPerInvocation,
    (i) => wgsl`if (i32(element${i}) < i32(units.x)) {
    var result = 0u;
    var written = 0u;
    ${lines(
      perWord,
      (j) => `if (element${i} + ${j}u < units.x) {
      result |= convert(value${i}_${j}) << ${8 * bytes * j}u;
      written |= ${masks[bytes]} << ${8 * bytes * j}u;
    }`,
    )}
    let word = first_word + first + (${i}u << parameters.lane_shift);
    if (written != 0xffffffffu) { result |= output[word] & ~written; }
    output[word] = result;
  }`,
  )}
}
`,
  });
}
