import {
  type Conv2dInputGradientProblem,
  floatTypes,
  inputGradientSteps,
  isTransformable,
} from "@backplane/core";
import type { conv2d } from "../conv2d/index.js";
import { kernelsOfSteps, planSteps, regionsOf } from "../conv2d-gradients/index.js";
import type { CpuMemory, CpuOperation } from "../kernel.js";

type InputGradient = CpuOperation<Conv2dInputGradientProblem<CpuMemory>>;

/** By the kernels of other operations. `convolution` plans the convolutions; by default the one of this package. */
export function inputGradientBy(convolution?: typeof conv2d): InputGradient {
  return {
    supports: [{ dtype: floatTypes }],
    kernels: kernelsOfSteps,
    plan(problem, context) {
      const steps = inputGradientSteps(problem, regionsOf(context));
      return planSteps(steps, context, isTransformable(problem.dtype, problem), convolution);
    },
  };
}

export const conv2dInputGradient: InputGradient = inputGradientBy();
