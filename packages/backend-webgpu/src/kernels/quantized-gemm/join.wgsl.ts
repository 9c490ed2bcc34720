import {
  floatLayouts,
  input,
  linearBuiltins,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import {
  type Finish,
  finishBindings,
  finishName,
  finishParameters,
  finishText,
  stored,
} from "./finish.wgsl.js";

export type JoinParameter = "m" | "n" | "parts" | keyof typeof finishParameters;

/** Adds up the parts of sums (parts x m x n, f32), and finishes them. */
export function joinProgram(form: Finish): Program<string, JoinParameter> {
  return program<string, JoinParameter>({
    name: `quantized_gemm_join_${form.dtype}${finishName(form)}`,
    light: true,
    bindings: { sums: input("f32"), ...finishBindings(form) },
    parameters: { m: "u32", n: "u32", parts: "u32", ...finishParameters },
    body: wgsl`
${workgroupIndex}
${floatLayouts[form.dtype].functions}
fn total_of(place: u32) -> f32 {
  let count = parameters.m * parameters.n;
  var total = 0.0;
  for (var part = 0u; part < parameters.parts; part++) { total += sums[parameters.sums_offset + part * count + place]; }
  return total;
}
${finishText(form)}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let i = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let row = i / parameters.n;
  let column = i % parameters.n;
  if (row >= parameters.m) { return; }
${stored(form)}
}
`,
  });
}
