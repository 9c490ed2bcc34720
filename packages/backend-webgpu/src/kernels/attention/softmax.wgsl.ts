import {
  linearBuiltins,
  memoized,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";

import { type Hiding, hidingBindings, hidingName, maskedFunction } from "./hiding.wgsl.js";
import { logBindings, logFunction, logName } from "./log-sum-exp.wgsl.js";

/** The state of one row so far: the highest score and the sum of the weights. */
const statistics = output("vec2f");

/**
 * Turns a block of scores into weights, relative to the highest score so far, and finds the factor that makes
 * earlier sums relative to it too. A workgroup computes one row.
 */
export const weightsProgram: (hiding: Hiding | undefined) => Program = memoized(weightsOf);

function weightsOf(hiding: Hiding | undefined): Program {
  const mask = hiding?.mask;
  const isSeen = hiding?.window ? "column >= since && column < seen" : "column < seen";
  const score =
    mask === undefined
      ? "scores[start + column]"
      : "masked(scores[start + column], parameters.mask_offset + row * parameters.columns + column)";
  return program<string, string>({
    name: `attention_weights${hidingName(hiding)}`,
    bindings: {
      scores: output("f32"), // rows x columns
      statistics, // rows
      factors: output("f32"), // rows
      ...hidingBindings(hiding), // rows x columns
    },
    parameters: {
      /** Row r is query (first_row + r) % query_length, column c is key first_key + c. */
      ...{ rows: "u32", columns: "u32", first_row: "u32", first_key: "u32", query_length: "u32" },
      /** 1 for the first block: there are no statistics. */
      first: "u32",
      visible: "i32",
      ...(hiding?.window ? { oldest: "i32" as const } : {}),
    },
    body: wgsl`
var<workgroup> values: array<f32, ${WORKGROUP_SIZE}>;

${workgroupIndex}
// Lower than any score of use, and finite; differences are cut off where exp would leave the normal numbers.
const LOWEST = -1.0e38;
fn weight(difference: f32) -> f32 { return exp(max(difference, -100.0)); }
${mask === undefined ? "" : `const UNSEEN = -2.0e38;\n${maskedFunction(mask, 1)}`}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let row = workgroup_index(workgroup, workgroups);
  if (row >= parameters.rows) { return; }
  let query = (parameters.first_row + row) % parameters.query_length;
  let last = i32(query) + parameters.visible - i32(parameters.first_key);
  let seen = u32(clamp(last + 1, 0, i32(parameters.columns)));
${hiding?.window ? "  let since = u32(max(i32(query) + parameters.oldest - i32(parameters.first_key), 0));\n" : ""}  let start = parameters.scores_offset + row * parameters.columns;
  let place = parameters.statistics_offset + row;
  var before = vec2f(LOWEST, 0.0);
  if (parameters.first == 0u) { before = statistics[place]; }

  var high = before.x;
  for (var column = ${hiding?.window ? "since + lane" : "lane"}; column < seen; column += ${WORKGROUP_SIZE}u) {
    high = max(high, ${score});
  }
  values[lane] = high;
  for (var half = ${WORKGROUP_SIZE / 2}u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) { values[lane] = max(values[lane], values[lane + half]); }
  }
  workgroupBarrier();
  high = values[0];
  workgroupBarrier();

  var sum = 0.0;
  for (var column = lane; column < parameters.columns; column += ${WORKGROUP_SIZE}u) {
    var value = 0.0;
${
  mask === undefined
    ? `    if (${isSeen}) { value = weight(scores[start + column] - high); }`
    : `    if (${isSeen}) {
      let score = ${score};
      if (score > UNSEEN) { value = weight(score - high); }
    }`
}
    scores[start + column] = value;
    sum += value;
  }
  values[lane] = sum;
  for (var half = ${WORKGROUP_SIZE / 2}u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) { values[lane] += values[lane + half]; }
  }
  if (lane == 0u) {
    let factor = weight(before.x - high);
    statistics[place] = vec2f(high, before.y * factor + values[0]);
    factors[parameters.factors_offset + row] = factor;
  }
}
`,
  });
}

/** factors[row] = 1 / the sum of the row's weights; 0 for a row that sees no key. With the logarithms of the sums, if wanted. */
export const finishProgram: (logs: boolean) => Program = memoized(
  (logs: boolean): Program =>
    program<string, string>({
      name: `attention_finish${logName(logs)}`,
      bindings: { statistics, factors: output("f32"), ...logBindings(logs) },
      parameters: { rows: "u32" },
      body: wgsl`
${workgroupIndex}${logFunction(logs, "e")}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let row = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (row >= parameters.rows) { return; }
  let state = statistics[parameters.statistics_offset + row];
  factors[parameters.factors_offset + row] = select(0.0, 1.0 / max(state.y, 1.0e-30), state.y > 0.0);
${logs ? "  store_log(row, state.x, state.y);\n" : ""}}
`,
    }),
);
