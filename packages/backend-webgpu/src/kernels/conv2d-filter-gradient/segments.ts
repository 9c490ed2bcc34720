import { type Conv2dFilterGradientProblem, filterGradientSteps } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import { divideSteps, scratchOfSteps } from "../conv2d-gradients/index.js";
import { type Segmentation, type SegmentTools, windowOf } from "../segments/index.js";

type Problem = Conv2dFilterGradientProblem<DeviceMemory>;

/** Each of the problems that the gradient consists of is divided by itself. */
export function filterGradientSegments(tools: SegmentTools<Problem>): Segmentation<Problem> {
  return {
    longestWindow: ({ input, outputGradient, filterGradient }) =>
      Math.max(windowOf(input), windowOf(outputGradient), windowOf(filterGradient)),
    scratchBound: ({ input, outputGradient, filterGradient }) =>
      scratchOfSteps([input, outputGradient, filterGradient]),

    divide(context, problem) {
      const steps = filterGradientSteps(problem, (bytes) => context.scratch(bytes));
      divideSteps(context, tools, steps);
    },
  };
}
