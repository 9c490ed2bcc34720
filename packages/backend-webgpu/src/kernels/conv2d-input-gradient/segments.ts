import { type Conv2dInputGradientProblem, inputGradientSteps, isTransformable } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import { divideSteps, partOf, scratchOfSteps } from "../conv2d-gradients/index.js";
import { middleOf, type Segmentation, type SegmentTools, windowOf } from "../segments/index.js";

type Problem = Conv2dInputGradientProblem<DeviceMemory>;

/** Cuts the batch; of one image, each of the problems that the gradient consists of is divided by itself. */
export function inputGradientSegments(tools: SegmentTools<Problem>): Segmentation<Problem> {
  return {
    longestWindow: ({ outputGradient, filter, inputGradient }) =>
      Math.max(windowOf(outputGradient), windowOf(filter), windowOf(inputGradient)),
    // Where windows do not overlap, there is no more than one result for each pixel.
    scratchBound: ({ outputGradient, filter, inputGradient }) =>
      scratchOfSteps([outputGradient, filter, inputGradient]),

    divide(context, problem, run) {
      const { batch } = problem;
      if (batch > 1) {
        const middle = middleOf(batch);
        run(context, images(problem, 0, middle));
        run(context, images(problem, middle, batch));
        return;
      }
      const steps = inputGradientSteps(problem, (bytes) => context.scratch(bytes));
      divideSteps(context, tools, steps, isTransformable(problem.dtype, problem));
    },
  };
}

function images(problem: Problem, first: number, end: number): Problem {
  const { dtype, batch, outputGradient, inputGradient } = problem;
  return {
    ...{ ...problem, batch: end - first },
    outputGradient: partOf(outputGradient, dtype, batch, first, end),
    inputGradient: partOf(inputGradient, dtype, batch, first, end),
  };
}
