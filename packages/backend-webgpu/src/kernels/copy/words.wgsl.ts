import { type DType, elementTypes } from "@backplane/core";
import {
  input,
  linearBuiltins,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { conversion } from "./convert.wgsl.js";
import { AXIS_ROWS } from "./units.wgsl.js";

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
  const [fromBytes, toBytes] = [elementTypes[from].bytes, elementTypes[to].bytes];
  const mask = toBytes === 4 ? "0xffffffffu" : toBytes === 2 ? "0xffffu" : "0xffu";
  const loads = {
    4: "source[at >> 2u]",
    2: "(source[at >> 2u] >> (8u * (at & 2u))) & 0xffffu",
    1: "(source[at >> 2u] >> (8u * (at & 3u))) & 0xffu",
  } as const;
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
fn load(at: u32) -> u32 { return ${loads[fromBytes]}; }

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
    written |= ${mask} << (8u * byte);
  }
  if (written == 0u) { return; }
  if (written != 0xffffffffu) { result |= output[word] & ~written; }
  output[word] = result;
}
`,
  });
}
