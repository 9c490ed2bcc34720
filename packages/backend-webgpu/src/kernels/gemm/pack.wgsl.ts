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
import { UNIT } from "../tiles/index.js";

/**
 * Copies the rows of f16 matrices of any layout, one after the other, each as whole units with zeros after
 * its end, for kernels that load unit by unit. One invocation makes one unit.
 */
export const packProgram: Program<"source" | "packed", "rows" | "columns" | "pitch" | "step" | "batch"> =
  program({
    name: "gemm_pack",
    bindings: { source: input("half"), packed: output("half8") },
    // pitch and step: elements from one row, and from one matrix, to the next.
    parameters: { rows: "u32", columns: "u32", pitch: "u32", step: "u32", batch: "u32" },
    body: wgsl`
${workgroupIndex}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let units = (parameters.columns + ${UNIT - 1}u) / ${UNIT}u;
  let row = index / units;
  if (row >= parameters.rows * parameters.batch) { return; }
  let column = index % units * ${UNIT}u;
  let start = parameters.source_offset + row / parameters.rows * parameters.step + row % parameters.rows * parameters.pitch;
  let first = (start + column) >> 1u;
  let last = (start + parameters.columns - 1u) >> 1u; // the word of the last element of the row
  var words = vec4u(
    source[first], source[min(first + 1u, last)], source[min(first + 2u, last)], source[min(first + 3u, last)]);
  if ((start & 1u) == 1u) {
    words = (words >> vec4u(16u)) | (vec4u(words.yzw, source[min(first + 4u, last)]) << vec4u(16u));
  }
  let left = parameters.columns - column;
  if (left < ${UNIT}u) {
    let halves = clamp(vec4i(i32(left)) - vec4i(0, 2, 4, 6), vec4i(0), vec4i(2));
    words &= select(select(vec4u(0u), vec4u(0xffffu), halves == vec4i(1)), vec4u(0xffffffffu), halves == vec4i(2));
  }
  packed[parameters.packed_offset + index] = words;
}
`,
  });
