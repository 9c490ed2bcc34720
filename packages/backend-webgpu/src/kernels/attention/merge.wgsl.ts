import { input, output, type Program, program } from "../../program.js";
import { linearBuiltins, WORKGROUP_SIZE, wgsl, workgroupIndex } from "../../wgsl.js";

/** Joins the parts that an attention was split into along the keys; each is scaled to the common maximum. */
export const mergeProgram: Program = program({
  name: "attention_merge",
  bindings: {
    sums: input("f32"), // parts x rows x head_size, not normalised
    statistics: input("vec2f"), // parts x rows: maximum score, sum of weights
    results: output("f32"), // rows x head_size
  },
  parameters: {
    parts: "u32",
    /** Rows of all matrices. */
    rows: "u32",
    head_size: "u32",
  },
  body: wgsl`
${workgroupIndex}
// One invocation computes one head element of one row.
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let count = parameters.rows * parameters.head_size;
  if (index >= count) { return; }
  let row = parameters.statistics_offset + index / parameters.head_size;
  var high = statistics[row].x;
  for (var part = 1u; part < parameters.parts; part++) {
    high = max(high, statistics[row + part * parameters.rows].x);
  }
  var sum = 0.0;
  var total = 0.0;
  for (var part = 0u; part < parameters.parts; part++) {
    let statistic = statistics[row + part * parameters.rows];
    // A part of which no key is seen has the lowest maximum, and sums of zero.
    let factor = exp(max(statistic.x - high, -100.0));
    sum += factor * sums[parameters.sums_offset + part * count + index];
    total += factor * statistic.y;
  }
  var result = 0.0; // for a row that sees no key
  if (total > 0.0) { result = sum / total; }
  results[parameters.results_offset + index] = result;
}
`,
});
