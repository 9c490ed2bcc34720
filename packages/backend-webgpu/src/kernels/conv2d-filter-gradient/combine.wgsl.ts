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

type CombineParameter = "parts" | "together" | "count" | "accumulate";

/** Adds parts of every sum in their order, `together` at a time: `output[g][i] = (output[g][i] +) (sum of sums[part of g][i])`. */
export const combineProgram: Program<"sums" | "output", CombineParameter> = program({
  name: "conv2d_filter_gradient_combine",
  bindings: { sums: input("f32"), output: output("f32") }, // parts x results, groups of parts x results
  parameters: { parts: "u32", together: "u32", count: "u32", accumulate: "u32" },
  body: wgsl`
${workgroupIndex}
${storeSum}
// One invocation adds up one group of parts of one result.
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let first = index / parameters.count * parameters.together;
  if (first >= parameters.parts) { return; }
  let end = min(parameters.parts, first + parameters.together);
  let result = parameters.sums_offset + index % parameters.count;
  var sum = sums[result + first * parameters.count];
  for (var part = first + 1u; part < end; part++) {
    sum += sums[result + part * parameters.count];
  }
  store_sum(parameters.output_offset + index, sum);
}
`,
});
