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
import { unitForms } from "./gather.wgsl.js";

/**
 * output[o, j, i] = source[o, index - first, i] of the index at (o, j), as `gatherProgram` does it, for rows that have one
 * index. 2^lane_shift neighbouring invocations take one of `parts` parts of a row, so that each reads an index and
 * divides places once for all of its units. An H200 brings rows of 1,024 numbers at 0.82 of a copy so, and at 0.77 otherwise.
 */
export function rowsProgram(
  unit: "block" | "word",
): Program<
  "source" | "indices" | "output",
  | ("rows" | "inner" | "lane_shift" | "parts" | "length" | "count")
  | ("outer_stride" | "axis_stride" | "first" | "keeps")
> {
  const { binding, wgsl: type, perInvocation } = unitForms[unit];
  const place = (k: number) => `unit + (${k}u << parameters.lane_shift)`;
  return program({
    name: `gather_rows_${unit}`,
    bindings: { source: input(binding), indices: input("i32"), output: output(binding) },
    parameters: {
      ...{ rows: "u32", inner: "u32", lane_shift: "u32", parts: "u32", length: "u32", count: "u32" },
      ...{ outer_stride: "u32", axis_stride: "u32", first: "u32", keeps: "u32" },
    },
    light: true,
    body: wgsl`
${workgroupIndex}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let invocation = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let part = invocation >> parameters.lane_shift;
  let row = part / parameters.parts;
  if (row >= parameters.rows) { return; }
  let o = row / parameters.count;
  let j = row - o * parameters.count;
  let index = indices[parameters.indices_offset + o * parameters.outer_stride + j * parameters.axis_stride];
  let source_row = u32(index) - parameters.first;
  // A difference of a negative index might wrap round into the range.
  let found = index >= 0 && source_row < parameters.length;
  if (!found && parameters.keeps != 0u) { return; }
  let own = invocation & ((1u << parameters.lane_shift) - 1u);
  let unit = (((part - row * parameters.parts) * ${perInvocation}u) << parameters.lane_shift) + own;
  let last = parameters.inner - 1u;
  let at = parameters.source_offset + (o * parameters.length + source_row) * parameters.inner;
  let to = parameters.output_offset + row * parameters.inner;
${lines(perInvocation, (k) => `  var value_${k} = ${type}(0u);`)}
  if (found) {
${lines(perInvocation, (k) => `    value_${k} = source[at + min(${place(k)}, last)];`)}
  }
${lines(perInvocation, (k) => `  if (${place(k)} <= last) { output[to + ${place(k)}] = value_${k}; }`)}
}
`,
  });
}
