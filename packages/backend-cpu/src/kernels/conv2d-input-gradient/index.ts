import { type Conv2dInputGradientProblem, floatTypes, inputGradientSteps } from "@backplane/core";
import { kernelsOfSteps, planSteps, regionsOf } from "../conv2d-gradients/index.js";
import type { CpuMemory, CpuOperation } from "../kernel.js";

/** By the kernels of other operations. */
export const conv2dInputGradient: CpuOperation<Conv2dInputGradientProblem<CpuMemory>> = {
  supports: [{ dtype: floatTypes }],
  kernels: kernelsOfSteps,
  plan: (problem, context) => planSteps(inputGradientSteps(problem, regionsOf(context)), context),
};
