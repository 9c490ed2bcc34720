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

const parameterTypes = {
  parts: "u32",
  together: "u32",
  count: "u32",
  accumulate: "u32",
  /** Output channels of one group, and places of their filters: rows and columns of results. */
  group_outputs: "u32",
  taps: "u32",
  /** Channels that are last in the sums: 1, and all taps as places, if they are not. */
  channels: "u32",
  places: "u32",
  /** How many there is room for in the sums. */
  rows: "u32",
  columns: "u32",
  /** Elements from part to part. */
  stride: "u32",
} as const;

/** Adds parts of every sum in their order, `together` at a time: `output[g][i] = (output[g][i] +) (sum of sums[part of g][i])`. */
export const combineProgram: Program<"sums" | "output", keyof typeof parameterTypes> = program({
  name: "conv2d_filter_gradient_combine",
  bindings: { sums: input("f32"), output: output("f32") }, // parts x results, groups of parts x results
  parameters: parameterTypes,
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
  let number = index % parameters.count;
  let row = number / parameters.taps;
  let room = row / parameters.group_outputs * parameters.rows + row % parameters.group_outputs;
  let tap = number % parameters.taps;
  let column = tap % parameters.places * parameters.channels + tap / parameters.places;
  let result = parameters.sums_offset + room * parameters.columns + column;
  var sum = sums[result + first * parameters.stride];
  for (var part = first + 1u; part < end; part++) {
    sum += sums[result + part * parameters.stride];
  }
  store_sum(parameters.output_offset + index, sum);
}
`,
});
