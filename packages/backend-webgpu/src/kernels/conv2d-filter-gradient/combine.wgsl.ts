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
import { storeSum } from "./parameters.js";

/** Adds the parts of every sum, in their order: `output[i] = (output[i] +) (sum of sums[part][i])`. */
export const combineProgram: Program<"sums" | "output", "parts" | "count" | "accumulate"> = program({
  name: "conv2d_filter_gradient_combine",
  bindings: { sums: input("f32"), output: output("f32") }, // parts x the output
  parameters: { parts: "u32", count: "u32", accumulate: "u32" },
  body: wgsl`
${workgroupIndex}
${storeSum}
// One invocation computes one result.
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (index >= parameters.count) { return; }
  var sum = sums[parameters.sums_offset + index];
  for (var part = 1u; part < parameters.parts; part++) {
    sum += sums[parameters.sums_offset + part * parameters.count + index];
  }
  store_sum(parameters.output_offset + index, sum);
}
`,
});
