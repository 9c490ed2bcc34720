import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  memoized,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { operandText } from "../tiles/index.js";

/** Rows of a workgroup, and invocations that share one. */
export const STATISTICS_ROWS = 16;
const SHARE = 16;

/**
 * For each query: logSumExp times log2(e), and D, the product of the gradients of out and out. A query that sees no key gets a
 * logarithm beyond all scores, so that its probabilities are 0.
 */
export const statisticsProgram: (dtype: FloatType, vector: boolean) => Program = memoized(
  (dtype: FloatType, vector: boolean): Program => {
    const out = operandText("out", dtype, vector);
    const g = operandText("g", dtype, vector);
    const unit = vector ? 4 : 1;
    const product = vector
      ? "dot(out_load4(out_base + at), g_load4(g_base + at))"
      : "out_load1(out_base + at) * g_load1(g_base + at)";
    return program<string, string>({
      name: `attention_gradient_statistics_${dtype}${vector ? "_4" : ""}`,
      bindings: {
        ...{ out: out.storage, g: g.storage }, // rows x head_size
        logs: input("u32"), // rows
        statistics: output("vec2f"), // rows
      },
      parameters: {
        ...{ rows: "u32", head_size: "u32" },
        /** 1: D of other head elements is there already. */
        continues: "u32",
      },
      body: wgsl`
${workgroupIndex}
${floatLayouts[dtype].functions}
${out.functions}
${g.functions}
var<workgroup> parts: array<f32, ${STATISTICS_ROWS * SHARE}>;

@compute @workgroup_size(${STATISTICS_ROWS * SHARE})
fn main(${linearBuiltins}) {
  let row = workgroup_index(workgroup, workgroups) * ${STATISTICS_ROWS}u + lane / ${SHARE}u;
  var sum = 0.0;
  if (row < parameters.rows) {
    let out_base = parameters.out_offset * out_unit + row * parameters.head_size;
    let g_base = parameters.g_offset * g_unit + row * parameters.head_size;
    for (var at = lane % ${SHARE}u * ${unit}u; at < parameters.head_size; at += ${SHARE * unit}u) { sum += ${product}; }
  }
  parts[lane] = sum;
  workgroupBarrier();
  if (lane % ${SHARE}u != 0u || row >= parameters.rows) { return; }
  for (var i = 1u; i < ${SHARE}u; i++) { sum += parts[lane + i]; }
  let at_row = parameters.statistics_offset + row;
  if (parameters.continues == 1u) { sum += statistics[at_row].y; }
  let word = logs[parameters.logs_offset + row];
  let sees_none = word == 0xff800000u; // -Infinity, of which WGSL may assume that it does not exist
  let high = select(bitcast<f32>(select(word, 0u, sees_none)) * ${Math.LOG2E}, 1.0e38, sees_none);
  statistics[at_row] = vec2f(high, sum);
}
`,
    });
  },
);
