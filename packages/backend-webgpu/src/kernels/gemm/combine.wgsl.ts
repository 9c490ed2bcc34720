import { input, memoized, type Program, program } from "../../program.js";
import { halfFunctions, linearBuiltins, WORKGROUP_SIZE, wgsl, workgroupIndex } from "../../wgsl.js";
import { type ResultForm, resultParameters, resultText } from "./operands.wgsl.js";

/** Sums of parts, and all there is to do where k is 0: C[i] = alpha * (sum of parts) + beta * C[i]. */
export const combineProgram: (form: ResultForm) => Program = memoized((form: ResultForm): Program => {
  const result = resultText(form);
  return program({
    name: `gemm_combine_${form.dtype}_${form.target}${form.readsC ? "_c" : ""}`,
    bindings: { sums: input("f32"), ...result.bindings }, // sums: parts x batch x m x n
    parameters: { ...resultParameters, parts: "u32", batch: "u32" },
    body: wgsl`
${workgroupIndex}
${form.dtype === "f16" ? halfFunctions : ""}
${result.functions}
// One invocation computes one element of a C.
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let count = parameters.batch * parameters.m * parameters.n;
  if (index >= count) { return; }
  var sum = 0.0;
  for (var part = 0u; part < parameters.parts; part++) {
    sum += sums[parameters.sums_offset + part * count + index];
  }
  let row = index / parameters.n;
  store(row / parameters.m, row % parameters.m, index % parameters.n, sum);
}
`,
  });
});
