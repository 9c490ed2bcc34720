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
  quadOfRun,
  type WeightForm,
  weightBindings,
  weightFunctions,
  weightName,
  weightParameters,
} from "./weights.wgsl.js";

export interface DequantizeForm extends Omit<WeightForm, "run" | "alignedB"> {
  readonly dtype: FloatType;
}

/** Weights that one invocation writes. */
export const weightsEach = 8;

/** Blocks of B become weights, rounded to f16 if that is what they are multiplied in. */
export function dequantizeProgram(form: DequantizeForm): Program<string, "count" | "block_shift"> {
  const { dtype, scaleType } = form;
  const { block, functions } = floatLayouts[dtype];
  const stored: WeightForm = { ...form, run: weightsEach, alignedB: false };
  return program<string, "count" | "block_shift">({
    name: `dequantize_${weightName(stored)}_${dtype}`,
    light: true,
    bindings: { ...weightBindings(stored), weights: output(block) },
    /** Invocations: eighths of the weights. */
    parameters: { count: "u32", ...weightParameters },
    body: wgsl`
${workgroupIndex}
${functions}
${scaleType === dtype ? "" : floatLayouts[scaleType].functions}
${weightFunctions(stored)}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let i = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (i >= parameters.count) { return; }
  let run = run_of(i);
  let block = i >> (parameters.block_shift - ${Math.log2(weightsEach)}u);
  let scale = scale_of(block);
  let magic = magic_of(block);
  let low = ${quadOfRun(stored, "run", 0, "magic")} * scale;
  let high = ${quadOfRun(stored, "run", 1, "magic")} * scale;
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
