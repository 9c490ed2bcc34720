import {
  type Conv2dInputGradientProblem,
  floatTypes,
  inputGradientSteps,
  isTransformable,
} from "@backplane/core";
import type { DeviceMemory, KernelContext } from "../../runtime/index.js";
import { runSteps } from "../conv2d-gradients/index.js";
import type { OperationEntry } from "../operation.js";
import { inputGradientSegments } from "./segments.js";

function run(context: KernelContext, problem: Conv2dInputGradientProblem<DeviceMemory>): void {
  runSteps(
    context,
    inputGradientSteps(problem, (bytes) => context.scratch(bytes)),
    isTransformable(problem.dtype, problem),
  );
}

/** inputGradient = the transposed convolution of the output's gradient with the filter */
export const conv2dInputGradient: OperationEntry<"conv2dInputGradient"> = {
  operation: "conv2dInputGradient",
  supports: [{ dtype: floatTypes }],
  run,
  segments: inputGradientSegments,
};
