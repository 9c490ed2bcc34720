import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  linearBuiltins,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import {
  loadEight,
  type WeightForm,
  weightBindings,
  weightFunctions,
  weightName,
  weightParameters,
} from "./weights.wgsl.js";

export interface DequantizeForm extends WeightForm {
  readonly dtype: FloatType;
}

/** Weights that one invocation writes. */
export const weightsEach = 8;

/** Blocks of B become weights, rounded to f16 if that is what they are multiplied in. */
export function dequantizeProgram(form: DequantizeForm): Program<string, "count" | "block_shift"> {
  const { dtype, scaleType } = form;
  const { block, functions } = floatLayouts[dtype];
  return program<string, "count" | "block_shift">({
    name: `dequantize_${weightName(form)}_${dtype}`,
    light: true,
    bindings: { ...weightBindings(form), weights: output(block) },
    /** Invocations: eighths of the weights. */
    parameters: { count: "u32", ...weightParameters },
    body: wgsl`
${workgroupIndex}
${functions}
${scaleType === dtype ? "" : floatLayouts[scaleType].functions}
${weightFunctions(form)}
${loadEight(form)}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let i = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (i >= parameters.count) { return; }
  let stored = eighth_of(i);
  let block = i >> (parameters.block_shift - ${Math.log2(weightsEach)}u);
  let scale = scale_of(block);
  let magic = magic_of(block);
  let low = steps_of(low_word(stored), magic) * scale;
  let high = steps_of(high_word(stored), magic) * scale;
  ${written[dtype]}
}
`,
  });
}

const written: Readonly<Record<FloatType, string>> = {
  f32: `weights[parameters.weights_offset + 2u * i] = low;
  weights[parameters.weights_offset + 2u * i + 1u] = high;`,
  f16: `weights[parameters.weights_offset + i] = vec4u(
    pack_halves(low.x, low.y), pack_halves(low.z, low.w), pack_halves(high.x, high.y), pack_halves(high.z, high.w));`,
};
