import { type Conv2dFilterGradientProblem, filterGradientSteps, floatTypes } from "@backplane/core";
import { planSteps, regionsOf } from "../conv2d-gradients/index.js";
import type { CpuMemory, CpuOperation } from "../kernel.js";

/** By the kernels of other operations. */
export const conv2dFilterGradient: CpuOperation<Conv2dFilterGradientProblem<CpuMemory>> = {
  supports: [{ dtype: floatTypes }],
  kernels: [],
  plan: (problem, context) => planSteps(filterGradientSteps(problem, regionsOf(context)), context),
};
