import {
  input,
  linearBuiltins,
  memoized,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { type Hiding, hidingBindings, hidingName, maskedFunction } from "../attention/index.js";

/** For a block of queries and keys: scores, times log2(e), become P, and the products of outGradient and v become S. */
export const changesProgram: (hiding: Hiding | undefined) => Program = memoized(
  (hiding: Hiding | undefined): Program => {
    const mask = hiding?.mask;
    const score = mask === undefined ? "scores[at]" : "masked(scores[at], parameters.mask_offset + index)";
    return program<string, string>({
      name: `attention_gradient_changes${hidingName(hiding)}`,
      bindings: {
        ...{ scores: output("f32"), changes: output("f32") }, // rows x columns
        statistics: input("vec2f"), // rows
        ...hidingBindings(hiding), // rows x columns
      },
      parameters: {
        /** Row r is query (first_row + r) % query_length, column c is key first_key + c. */
        ...{ rows: "u32", columns: "u32", first_row: "u32", first_key: "u32", query_length: "u32" },
        visible: "i32",
        ...(hiding?.window ? { oldest: "i32" as const } : {}),
      },
      body: wgsl`
${workgroupIndex}
const UNSEEN = -2.0e38;
${mask === undefined ? "" : maskedFunction(mask, Math.LOG2E)}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (index >= parameters.rows * parameters.columns) { return; }
  let row = index / parameters.columns;
  let apart = i32(parameters.first_key + index % parameters.columns) -
    i32((parameters.first_row + row) % parameters.query_length);
  let statistic = statistics[parameters.statistics_offset + row];
  let at = parameters.scores_offset + index;
  let place = parameters.changes_offset + index;
  let seen = apart <= parameters.visible${hiding?.window ? " && apart >= parameters.oldest" : ""};
  let difference = select(UNSEEN, ${score}, seen) - statistic.x;
  let p = select(0.0, exp2(difference), difference > -126.0);
  scores[at] = p;
  changes[place] = p * (changes[place] - statistic.y);
}
`,
    });
  },
);
