import type { Activation, FloatType } from "@backplane/core";
import { floatLayouts, input, output, type Program, program, wgsl } from "../../program/index.js";
import { activated, activationText, epilogueName } from "../epilogue.wgsl.js";

export interface JoinForm {
  readonly dtype: FloatType;
  readonly bias: boolean;
  readonly activation: Activation | undefined;
}

/** result[0] (f32) = the sum of some numbers, with the epilogue of the first column. */
export function joinProgram(form: JoinForm): Program<string, "count"> {
  const { dtype, bias, activation } = form;
  const layout = floatLayouts[dtype];
  return program<string, "count">({
    name: `quantized_gemm_join_${dtype}${epilogueName(form)}`,
    light: true,
    bindings: {
      sums: input("f32"),
      ...(bias ? { bias: input(layout.single) } : {}),
      result: output("f32"),
    },
    parameters: { count: "u32" },
    body: wgsl`
${layout.functions}
${activationText(activation, dtype)}
@compute @workgroup_size(1)
fn main() {
  var value = 0.0;
  for (var i = 0u; i < parameters.count; i++) { value += sums[parameters.sums_offset + i]; }
  ${bias ? `value += ${layout.load("bias", "parameters.bias_offset")};` : ""}
  result[parameters.result_offset] = ${activated(activation, "value")};
}
`,
  });
}
