import { floatTypes } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { KernelContext } from "../../runtime/index.js";
import { inputsOf, resultsOf, STRIP, stripsOf } from "../images/index.js";
import type { OperationEntry } from "../operation.js";
import { eachProgram } from "./each.wgsl.js";
import { type Problem, resizeGradientSegments } from "./problem.js";
import { planResize2dGradient } from "./select.js";
import { stripsProgram } from "./strips.wgsl.js";

const each = memoized(eachProgram);
const strips = memoized(stripsProgram);

/** inputGradient[p, y, x, c] = the sum of gradients of results that are made of that element, times its factors */
function run(context: KernelContext, problem: Problem): void {
  const { planes, height, width, y, x, outputGradient, inputGradient } = problem;
  const plan = planResize2dGradient(problem);
  const { row, column, rows, columns } = inputsOf(problem);
  const results = resultsOf(problem);
  const regions = { source: outputGradient, output: inputGradient };
  const places = {
    factor_y: y.factor,
    shift_y: y.shift,
    divisor_y: y.divisor,
    last_y: height - 1,
    unit_y: 1 / y.divisor,
    step_y: 1 / y.factor,
    factor_x: x.factor,
    shift_x: x.shift,
    divisor_x: x.divisor,
    last_x: width - 1,
    unit_x: 1 / x.divisor,
    step_x: 1 / x.factor,
    result_row: results.row,
    result_column: results.column,
    result_rows: results.rows,
    result_columns: results.columns,
    planes,
    shift: plan.shift,
    rows,
    first_row: row,
  };
  if (plan.form === "strips")
    context.dispatch(
      strips(plan.tile),
      regions,
      {
        ...places,
        strips: stripsOf(columns, problem.inner, plan.tile.width),
        inner: Math.ceil(problem.inner / STRIP),
      },
      plan.workgroups,
    );
  else
    context.dispatch(
      each(plan.tile),
      regions,
      {
        ...places,
        columns,
        inner: problem.inner / plan.tile.vector,
        first_column: column,
      },
      plan.workgroups,
    );
}

export const resize2dGradient: OperationEntry<"resize2dGradient", Problem> = {
  operation: "resize2dGradient",
  supports: [{ dtype: floatTypes }],
  run,
  segments: () => resizeGradientSegments,
};
