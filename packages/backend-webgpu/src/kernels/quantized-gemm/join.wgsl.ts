import type { Activation, FloatType } from "@backplane/core";
import { floatLayouts, input, output, type Program, program, wgsl } from "../../program/index.js";
import { activated, activationText, epilogueName } from "../epilogue.wgsl.js";

export interface JoinForm {
  readonly dtype: FloatType;
  /** Where the number is to which beta times it is added: `result` itself, or another place in its own type. */
  readonly adds: "result" | "c" | undefined;
  readonly bias: boolean;
  readonly activation: Activation | undefined;
}

/** result[0] (f32) = the sum of some numbers, with what is added to it and the epilogue of the first column. */
export function joinProgram(form: JoinForm): Program<string, "count" | "beta"> {
  const { dtype, adds, bias, activation } = form;
  const layout = floatLayouts[dtype];
  const before = {
    result: "result[parameters.result_offset]",
    c: layout.load("c", "parameters.c_offset"),
  };
  return program<string, "count" | "beta">({
    name: `quantized_gemm_join_${dtype}${adds === undefined ? "" : `_adds_${adds}`}${epilogueName(form)}`,
    light: true,
    bindings: {
      sums: input("f32"),
      ...(adds === "c" ? { c: input(layout.single) } : {}),
      ...(bias ? { bias: input(layout.single) } : {}),
      result: output("f32"),
    },
    parameters: { count: "u32", beta: "f32" },
    body: wgsl`
${layout.functions}
${activationText(activation, dtype)}
@compute @workgroup_size(1)
fn main() {
  var value = 0.0;
  for (var i = 0u; i < parameters.count; i++) { value += sums[parameters.sums_offset + i]; }
  ${adds === undefined ? "" : `value += parameters.beta * ${before[adds]};`}
  ${bias ? `value += ${layout.load("bias", "parameters.bias_offset")};` : ""}
  result[parameters.result_offset] = ${activated(activation, "value")};
}
`,
  });
}
