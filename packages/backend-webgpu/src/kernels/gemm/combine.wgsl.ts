import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  memoized,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { epilogueName } from "../epilogue.wgsl.js";
import { type ResultForm, resultParameters, resultText } from "./results.wgsl.js";

/** Parts that one invocation loads before it adds the first of them. */
const UNROLL = 4;

/** Invocations that share one result of this many parts: few numbers, each makes another program. */
export function combineLanes(parts: number): 1 | 4 | 16 {
  if (parts < 16) return 1;
  return parts < 64 ? 4 : 16;
}

/**
 * Sums parts and finishes the whole: C[i] = alpha * (sum of parts) + beta * C[i], with the epilogue. It also
 * finishes sums that are already whole, and does all the work if k is 0. A workgroup computes `WORKGROUP_SIZE
 * / lanes` neighbouring elements of a C.
 */
export const combineProgram: (form: ResultForm, lanes: 1 | 4 | 16) => Program = memoized(
  (form: ResultForm, lanes: 1 | 4 | 16): Program => {
    const result = resultText(form);
    return program({
      name: `gemm_combine_${lanes}_${form.dtype}_${form.target}${form.readsC ? "_c" : ""}${epilogueName(form)}`,
      bindings: { sums: input("f32"), ...result.bindings }, // sums: parts x batch x m x sums_pitch
      parameters: { ...resultParameters, sums_pitch: "u32", parts: "u32", batch: "u32" },
      light: true,
      body: wgsl`
${workgroupIndex}
${floatLayouts[form.dtype].functions}
${result.functions}
const LANES = ${lanes}u;
const ELEMENTS = ${WORKGROUP_SIZE / lanes}u;

${lanes > 1 ? `var<workgroup> totals: array<f32, ${WORKGROUP_SIZE}>;` : ""}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let slice = lane / ELEMENTS;
  let index = workgroup_index(workgroup, workgroups) * ELEMENTS + lane % ELEMENTS;
  let rows = parameters.batch * parameters.m;
  let row = index / parameters.n;
  let column = index % parameters.n;
  let count = rows * parameters.sums_pitch;
  let exists = row < rows;
  var sum = 0.0;
  if (exists) {
    let first = parameters.sums_offset + row * parameters.sums_pitch + column;
    var part = slice;
    for (; part + ${UNROLL - 1}u * LANES < parameters.parts; part += ${UNROLL}u * LANES) {
${lines(UNROLL, (i) => `      let value_${i} = sums[first + (part + ${i}u * LANES) * count];`)}
      sum += (value_0 + value_1) + (value_2 + value_3);
    }
    for (; part < parameters.parts; part += LANES) { sum += sums[first + part * count]; }
  }
${
  lanes > 1
    ? wgsl`
  totals[lane] = sum;
  for (var half = LANES / 2u; half > 0u; half >>= 1u) {
    workgroupBarrier();
    if (slice < half) { totals[lane] += totals[lane + half * ELEMENTS]; }
  }
  sum = totals[lane];`
    : ""
}
  if (!exists || slice > 0u) { return; }
  store(row / parameters.m, row % parameters.m, column, sum);
}
`,
    });
  },
);
