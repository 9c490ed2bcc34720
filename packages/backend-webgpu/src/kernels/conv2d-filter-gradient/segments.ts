import { type Conv2dFilterGradientProblem, filterGradientSteps } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import { divideSteps, partOf, scratchOfSteps } from "../conv2d-gradients/index.js";
import { storeRounded } from "../halves.js";
import { middleOf, type Segmentation, type SegmentTools, windowOf } from "../segments/index.js";

type Problem = Conv2dFilterGradientProblem<DeviceMemory>;

/**
 * Cuts the batch, if sums in f32 can be continued where they are. Otherwise each of the problems that the gradient consists of
 * is divided by itself.
 */
export function filterGradientSegments(tools: SegmentTools<Problem>): Segmentation<Problem> {
  return {
    longestWindow: ({ input, outputGradient, filterGradient }) =>
      Math.max(windowOf(input), windowOf(outputGradient), windowOf(filterGradient)),
    // A part of the sums for each invocation of a workgroup, at least.
    scratchBound: ({ input, outputGradient, filterGradient }) =>
      scratchOfSteps([input, outputGradient, filterGradient], 256 * filterGradient.byteLength),

    divide(context, problem, run) {
      const { dtype, batch } = problem;
      if (batch > 1 && storeRounded[dtype] === undefined) {
        const middle = middleOf(batch);
        run(context, images(problem, 0, middle));
        run(context, { ...images(problem, middle, batch), accumulate: true });
        return;
      }
      const steps = filterGradientSteps(problem, (bytes) => context.scratch(bytes));
      divideSteps(context, tools, steps, false);
    },
  };
}

function images(problem: Problem, first: number, end: number): Problem {
  const { dtype, batch, input, outputGradient } = problem;
  return {
    ...{ ...problem, batch: end - first },
    input: partOf(input, dtype, batch, first, end),
    outputGradient: partOf(outputGradient, dtype, batch, first, end),
  };
}
