import {
  input,
  linearBuiltins,
  memoized,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
} from "../../program/index.js";
import { type ConvResult, resultName, resultText } from "./results.wgsl.js";

/**
 * Adds the parts of every sum, in their order, and applies the epilogue of the whole:
 * `output[i] = activation(bias + (sum of sums[part][i]))`.
 */
export const combineProgram: (form: ConvResult) => Program = memoized((form: ConvResult): Program => {
  const result = resultText(form);
  const width = form.vectorOutput ? 4 : 1;
  return program({
    name: `conv2d_combine_${form.dtype}${resultName(form)}`,
    bindings: { sums: input(width === 4 ? "vec4f" : "f32"), ...result.bindings }, // parts x the output
    parameters: {
      ...{ out_height: "u32", out_width: "u32", groups: "u32", group_outputs: "u32" },
      ...{ parts: "u32", count: "u32" },
    },
    body: wgsl`${result.declarations}
const WIDTH = ${width}u;

// One invocation computes WIDTH neighbouring results; \`count\` is that of all.
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let count = parameters.count / WIDTH;
  if (index >= count) { return; }
  var sum = sums[parameters.sums_offset + index];
  for (var part = 1u; part < parameters.parts; part++) {
    sum += sums[parameters.sums_offset + part * count + index];
  }
  let plane = parameters.out_height * parameters.out_width;
  let row = index * WIDTH / plane; // image * channels + channel
  let channels = parameters.groups * parameters.group_outputs;
  let pixel = row / channels * plane + index * WIDTH % plane;
  ${width === 4 ? "store_four" : "store"}(row % channels, output_place(pixel), sum);
}
`,
  });
});
