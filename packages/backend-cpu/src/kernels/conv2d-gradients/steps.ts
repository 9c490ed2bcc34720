import type { GradientStep, Region } from "@backplane/core";
import { binary } from "../binary/index.js";
import { conv2d } from "../conv2d/index.js";
import { copy } from "../copy/index.js";
import { gemm } from "../gemm/index.js";
import type { CpuMemory, CpuOperation, Launch, PlanContext } from "../kernel.js";
import { planFill } from "../memory/index.js";

/** The operations that the gradients of a convolution consist of. */
const operations = { copy, conv2d, gemm, binary };

/** What a backend must have for `planSteps`. */
export const kernelsOfSteps: CpuOperation<never>["kernels"] = Object.values(operations).flatMap(
  ({ kernels }) => kernels,
);

/** Returns workspace as regions. */
export function regionsOf({ workspace }: PlanContext): (bytes: number) => Region<CpuMemory> {
  return (byteLength) => ({
    ...{ memory: { byteOffset: workspace(byteLength), byteLength }, byteOffset: 0, byteLength },
  });
}

/**
 * Returns the commands of the problems of other operations that a gradient consists of. Only if it `mayTransform` do its
 * convolutions go by transforms: that is declared for some gradients, and not for all that consist of such convolutions.
 * `convolution` plans them.
 */
export function planSteps(
  steps: readonly GradientStep<CpuMemory>[],
  context: PlanContext,
  mayTransform: boolean,
  convolution: typeof conv2d = conv2d,
): readonly Launch[] {
  const ofConvolutions: PlanContext = mayTransform
    ? context
    : { ...context, transformedConvolutions: "never" };
  return steps.flatMap(({ operation, problem }) => {
    if (operation === "fill") return [planFill(problem, 0)];
    if (operation === "conv2d") return convolution.plan(problem, ofConvolutions);
    const { plan } = operations[operation] as CpuOperation<unknown>;
    return plan(problem, context);
  });
}
