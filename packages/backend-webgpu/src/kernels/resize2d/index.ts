import { floatTypes, type Resize2dProblem, resize2dTypes } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { DeviceMemory, KernelContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { eachProgram } from "./each.wgsl.js";
import { resizeSegments } from "./segments.js";
import { planResize2d } from "./select.js";
import { stripsProgram } from "./strips.wgsl.js";

type Problem = Resize2dProblem<DeviceMemory>;

const each = memoized(eachProgram);
const strips = memoized(stripsProgram);

/** output[p, y, x, c] = the elements around a place of input[p, , , c] */
function run(context: KernelContext, problem: Problem): void {
  const { planes, height, width, outHeight, outWidth, y, x, input, output } = problem;
  const plan = planResize2d(problem);
  const axes = {
    factor_y: y.factor,
    shift_y: y.shift,
    divisor_y: y.divisor,
    last_y: height - 1,
    unit_y: 1 / y.divisor,
    factor_x: x.factor,
    shift_x: x.shift,
    divisor_x: x.divisor,
    last_x: width - 1,
    unit_x: 1 / x.divisor,
    out_height: outHeight,
    out_width: outWidth,
  };
  if (plan.form === "strips")
    context.dispatch(
      strips(plan.tile),
      { source: input, output },
      {
        ...axes,
        planes,
        shift: plan.shift,
      },
      plan.workgroups,
    );
  else
    context.dispatch(
      each(plan.tile),
      { source: input, output },
      {
        ...axes,
        n: plan.n,
        inner: plan.inner,
        height,
        width,
      },
      plan.workgroups,
    );
}

// For the gradient.
export { axisParameters, dividedFunction, PRODUCT_QUOTIENTS } from "./places.wgsl.js";

export const resize2d: OperationEntry<"resize2d", Problem> = {
  operation: "resize2d",
  supports: [{ dtype: floatTypes }, { dtype: resize2dTypes, kind: ["nearest"] }],
  run,
  segments: () => resizeSegments,
};
