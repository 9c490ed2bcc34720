import { floatTypes } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { BufferRegion, KernelContext } from "../../runtime/index.js";
import { countedPlaces } from "../images/index.js";
import type { OperationEntry } from "../operation.js";
import { eachProgram } from "./each.wgsl.js";
import type { Problem } from "./problem.js";
import { poolSegments } from "./segments.js";
import { planPool2d } from "./select.js";
import { STRIP, stripsProgram } from "./strips.wgsl.js";

const each = memoized(eachProgram);
const strips = memoized(stripsProgram);

/** output[p, y, x, c] = the largest element, or the mean, of a window of input[p, , , c] */
function run(context: KernelContext, problem: Problem): void {
  const { kind, height, width, top, outWidth, outHeight, input, output, indices } = problem;
  const { kernelHeight, kernelWidth, rowsCounted = 0, columnsCounted = 0 } = problem;
  const plan = planPool2d(problem);
  const { low, high_y, high_x } = countedPlaces(problem);
  const nothing = kind === "max" ? Number.NEGATIVE_INFINITY : 0;
  const scale = 1 / (kernelHeight * kernelWidth);
  if (plan.form === "strips") {
    context.dispatch(
      strips(plan.tile),
      { source: input, output },
      {
        planes: problem.planes,
        strips: outWidth / STRIP,
        shift: plan.shift,
        out_height: outHeight,
        quads: width / 4,
        height,
        top,
        low,
        high_y,
        high_x,
        scale,
        nothing,
      },
      plan.workgroups,
    );
    return;
  }
  const places = indices && placesFor(context, problem, indices);
  context.dispatch(
    each(plan.tile),
    places === undefined ? ({ source: input, output } as never) : { source: input, output, places },
    {
      n: plan.n,
      inner: problem.inner / plan.tile.vector,
      out_width: outWidth,
      out_height: outHeight,
      width,
      height,
      kernel_y: kernelHeight,
      kernel_x: kernelWidth,
      stride_y: problem.strideY,
      stride_x: problem.strideX,
      dilation_y: problem.dilationY,
      dilation_x: problem.dilationX,
      before_y: top,
      before_x: problem.left,
      low,
      high_y,
      high_x,
      counted_y: rowsCounted,
      counted_x: columnsCounted,
      scale,
      nothing,
      first_place: problem.firstPlace ?? 0,
      continues: problem.continues === true ? 1 : 0,
    },
    plan.workgroups,
  );
  if (indices !== undefined && places !== undefined && places !== indices) context.copy(indices, places);
}

/** The region itself, or scratch if the output is in the same buffer: a dispatch binds a buffer once if it writes it. */
function placesFor(context: KernelContext, problem: Problem, indices: BufferRegion): BufferRegion {
  if (indices.memory !== problem.output.memory) return indices;
  const places = context.scratch(indices.byteLength);
  if (problem.continues === true) context.copy(places, indices);
  return places;
}

export const pool2d: OperationEntry<"pool2d", Problem> = {
  operation: "pool2d",
  supports: [{ dtype: floatTypes }],
  run,
  segments: () => poolSegments,
};
