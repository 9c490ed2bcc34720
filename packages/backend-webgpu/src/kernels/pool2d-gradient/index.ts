import { floatTypes } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { KernelContext } from "../../runtime/index.js";
import { countedPlaces, inputsOf, resultsOf, STRIP, stripsOf } from "../images/index.js";
import type { OperationEntry } from "../operation.js";
import { eachProgram } from "./each.wgsl.js";
import { type Problem, poolGradientSegments } from "./problem.js";
import { planPool2dGradient } from "./select.js";
import { stripsProgram } from "./strips.wgsl.js";

const each = memoized(eachProgram);
const strips = memoized(stripsProgram);

/** inputGradient[p, y, x, c] = the sum of the gradients of windows with that element, or of their shares */
function run(context: KernelContext, problem: Problem): void {
  const { planes, top, kernelHeight, kernelWidth, outputGradient, indices, inputGradient } = problem;
  const { strideY, strideX, dilationY, dilationX } = problem;
  const plan = planPool2dGradient(problem);
  const { low, high_y, high_x } = countedPlaces(problem);
  const { row, column, rows, columns } = inputsOf(problem);
  const results = resultsOf(problem);
  const scale = 1 / (kernelHeight * kernelWidth);
  const regions = (
    indices === undefined
      ? { source: outputGradient, output: inputGradient }
      : { source: outputGradient, output: inputGradient, places: indices }
  ) as Record<"source" | "output" | "places", typeof outputGradient>;
  if (plan.form === "strips") {
    context.dispatch(
      strips(plan.tile),
      regions,
      {
        planes,
        strips: stripsOf(columns, problem.inner, plan.tile.width),
        inner: Math.ceil(problem.inner / STRIP),
        shift: plan.shift,
        rows,
        first_row: row,
        window_row: results.row,
        window_rows: results.rows,
        out_width: results.columns,
        top,
        low,
        high_y,
        high_x,
        scale,
      },
      plan.workgroups,
    );
    return;
  }
  context.dispatch(
    each(plan.tile),
    regions,
    {
      planes,
      shift: plan.shift,
      rows,
      columns,
      inner: problem.inner / plan.tile.vector,
      first_row: row,
      first_column: column,
      width: problem.width,
      window_row: results.row,
      window_column: results.column,
      window_rows: results.rows,
      window_columns: results.columns,
      kernel_y: kernelHeight,
      kernel_x: kernelWidth,
      stride_y: strideY,
      stride_x: strideX,
      dilation_y: dilationY,
      dilation_x: dilationX,
      period_y: dilationY / commonDivisor(dilationY, strideY),
      period_x: dilationX / commonDivisor(dilationX, strideX),
      before_y: top,
      before_x: problem.left,
      low,
      high_y,
      high_x,
      scale,
    },
    plan.workgroups,
  );
}

/** Every so many windows have a place in common: `period` in the kernel. */
function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b);
}

export const pool2dGradient: OperationEntry<"pool2dGradient", Problem> = {
  operation: "pool2dGradient",
  supports: [{ dtype: floatTypes }],
  run,
  segments: () => poolGradientSegments,
};
