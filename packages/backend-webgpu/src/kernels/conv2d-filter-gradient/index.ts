import { type Conv2dFilterGradientProblem, filterGradientSteps, floatTypes } from "@backplane/core";
import type { DeviceMemory, KernelContext } from "../../runtime/index.js";
import { runSteps } from "../conv2d-gradients/index.js";
import type { OperationEntry } from "../operation.js";
import { filterGradientSegments } from "./segments.js";

function run(context: KernelContext, problem: Conv2dFilterGradientProblem<DeviceMemory>): void {
  runSteps(
    context,
    filterGradientSteps(problem, (bytes) => context.scratch(bytes)),
  );
}

/** filterGradient = the sums over all windows of the input times the output's gradient */
export const conv2dFilterGradient: OperationEntry<"conv2dFilterGradient"> = {
  operation: "conv2dFilterGradient",
  supports: [{ dtype: floatTypes }],
  run,
  segments: filterGradientSegments,
};
