import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  linearBuiltins,
  memoized,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { operandText } from "../tiles/index.js";
import { gradientParameters, storeSum } from "./parameters.js";
import { windowFunctions } from "./stages.wgsl.js";

/** Invocations of a workgroup of the direct kernel. */
export const DIRECT_LANES = 64;

/** One invocation computes one sum straight from the buffers: right if there is no gain in sharing what was read. */
export const directProgram: (dtype: FloatType) => Program = memoized((dtype: FloatType): Program => {
  const gradient = operandText("gradient", dtype, false);
  const source = operandText("input", dtype, false);
  return program({
    name: `conv2d_filter_gradient_direct_${dtype}`,
    bindings: {
      gradient: gradient.storage, // batch x groups * group_outputs x out_height x out_width
      input: source.storage, // batch x in_channels x height x width
      output: output("f32"), // parts x groups * group_outputs x group_channels x kernel_height x kernel_width
    },
    parameters: gradientParameters,
    body: wgsl`
${workgroupIndex}
${floatLayouts[dtype].functions}
${gradient.functions}
${source.functions}
${windowFunctions.replaceAll("input_base", "parameters.input_offset")}
${storeSum}
@compute @workgroup_size(${DIRECT_LANES})
fn main(${linearBuiltins}) {
  let taps = parameters.group_channels * parameters.kernel_height * parameters.kernel_width;
  let channels = parameters.groups * parameters.group_outputs;
  let index = workgroup_index(workgroup, workgroups) * ${DIRECT_LANES}u + lane;
  let part = index / taps / channels;
  let begin = part * parameters.part;
  if (begin >= parameters.pixels) { return; }
  let end = min(parameters.pixels, begin + parameters.part);
  let plane = parameters.out_height * parameters.out_width;
  let channel = index / taps % channels;
  let first_input = channel / parameters.group_outputs * parameters.group_channels * parameters.height * parameters.width;
  let tap = find_tap(index % taps);
  let step = find_pixel(1u);
  var pixel = find_pixel(begin);
  var sum = 0.0;
  for (var i = begin; i < end; i++) {
    let at = (pixel.image * channels + channel) * plane + pixel.y * parameters.out_width + pixel.x;
    sum += gradient_load1(parameters.gradient_offset + at) * window_value(origin_of(pixel, first_input), tap);
    pixel = later_pixel(pixel, step);
  }
  store_sum(parameters.output_offset + index, sum);
}
`,
  });
});
