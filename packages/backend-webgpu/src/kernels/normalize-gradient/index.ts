import { floatTypes } from "@backplane/core";
import type { KernelContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { type Problem, runBlocks, writeTotal } from "./passes.js";
import { gradientSegments } from "./segments.js";

function run(context: KernelContext, problem: Problem): void {
  const { dtype, rows, size, accumulate, weightGradient, biasGradient } = problem;
  if (rows === 0) {
    for (const region of [weightGradient, biasGradient]) if (region !== undefined) context.fill(region, 0);
    return;
  }
  const sums = runBlocks(context, problem);
  if (sums === undefined) return;
  const { blocks, weights, biases } = sums;
  if (weightGradient !== undefined)
    writeTotal(context, weights!, blocks, size, weightGradient, dtype, accumulate);
  if (biasGradient !== undefined) writeTotal(context, biases, blocks, size, biasGradient, dtype, accumulate);
}

/** The gradients of layer and rms normalization: of the input, and the sums over rows for weight and bias */
export const normalizeGradient: OperationEntry<"normalizeGradient", Problem> = {
  operation: "normalizeGradient",
  supports: [{ dtype: floatTypes }],
  run,
  segments: () => gradientSegments,
};
