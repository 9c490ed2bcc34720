import { dtypeBytes, type FloatType, type GradientStep } from "@backplane/core";
import type { BufferRegion, DeviceMemory, KernelContext, OperationContext } from "../../runtime/index.js";
import { binary } from "../binary/index.js";
import { type ConvProblem, conv2d } from "../conv2d/index.js";
import { copy } from "../copy/index.js";
import { runGemm } from "../gemm/index.js";
import { PARTIAL_SUM_BYTES, type SegmentTools, sliceOf } from "../segments/index.js";

/**
 * Enqueues the problems of other operations that a gradient consists of, all of which fit into bindings. Unless it
 * `mayTransform`, its bounds are those of plain sums.
 */
export function runSteps(
  context: KernelContext,
  steps: readonly GradientStep<DeviceMemory>[],
  mayTransform: boolean,
): void {
  for (const step of steps) {
    switch (step.operation) {
      case "copy":
        copy.run(context, step.problem);
        break;
      case "conv2d":
        conv2d.run(context, mayTransform ? step.problem : plain(step.problem));
        break;
      case "gemm":
        runGemm(context, step.problem);
        break;
      case "binary":
        binary.run(context, step.problem);
        break;
      case "fill":
        context.fill(step.problem, 0);
    }
  }
}

function plain(problem: ConvProblem): ConvProblem {
  return { ...problem, plain: true };
}

/** The same for problems of any size. */
export function divideSteps(
  context: OperationContext,
  tools: Pick<SegmentTools<never>, "run">,
  steps: readonly GradientStep<DeviceMemory>[],
  mayTransform: boolean,
): void {
  for (const step of steps)
    if (step.operation === "fill") context.fill(step.problem, 0);
    else if (step.operation === "conv2d")
      tools.run("conv2d", context, mayTransform ? step.problem : plain(step.problem));
    else tools.run(step.operation, context, step.problem as never);
}

/**
 * A bound on one piece of scratch of the steps: operands and results in f32 and in another order, where windows do not
 * overlap one result for each place of the filter and each output, and the sums of parts of long sums.
 */
export function scratchOfSteps(regions: readonly BufferRegion[], others = 0): number {
  return Math.max(PARTIAL_SUM_BYTES, others, ...regions.map(({ byteLength }) => 4 * byteLength));
}

/** The part of [first, end) of `batch` images. */
export function partOf(
  region: BufferRegion,
  dtype: FloatType,
  batch: number,
  first: number,
  end: number,
): BufferRegion {
  const step = region.byteLength / dtypeBytes[dtype] / batch;
  return sliceOf(region, dtype, first * step, (end - first) * step);
}
