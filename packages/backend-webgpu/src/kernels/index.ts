/** The operations, for the folders above. */

import type { DriverKernels, Kernel, OperationName, OperationProblems } from "@backplane/core";
import type { DeviceMemory, KernelContext, KernelDefinition, OperationContext } from "../runtime/index.js";
import type { ForcedVariants } from "./forced-variants.js";
import type { RecordOperation } from "./operation.js";
import { type SegmentTools, segmented } from "./segments/index.js";
import type { KernelSet } from "./set.js";

export type { ShapeField } from "./fields.js";
export { forcedDetails } from "./forced.js";
export type { ForcedVariants } from "./forced-variants.js";
export type { RecordOperation } from "./operation.js";
export { type OwnProgram, ownKernel, ownProgram } from "./own.js";
export { KernelSet } from "./set.js";
export { choiceLog, observeChoices } from "./variant.js";

type AnyKernel<Context> = KernelDefinition<OperationProblems<DeviceMemory>[OperationName], Context>;

/** Returns a kernel for every operation that has an entry, for operands of any size. */
function kernelsWith(
  { entries }: KernelSet,
  forced: ForcedVariants,
): ReadonlyMap<OperationName, AnyKernel<OperationContext>> {
  const fitting = new Map<OperationName, KernelDefinition<never>>();
  const whole = new Map<OperationName, AnyKernel<OperationContext>>();
  const others: Pick<SegmentTools<never>, "kernelOf" | "run"> = {
    kernelOf: (name) => fitting.get(name)!,
    run: (name, context, problem) => whole.get(name)!.run(context, problem),
  };
  for (const entry of entries) {
    const { operation, alike = [], supports } = entry;
    const variant = forced[operation];
    const isForced = variant !== undefined;
    // Without a function in between, and in objects of one shape: either would cost every call.
    const kernel: AnyKernel<KernelContext> = {
      supports,
      run: isForced ? (context, problem) => entry.run(context, problem, variant) : entry.run,
    };
    const anySize = segmented(kernel, entry.segments({ kernel, isForced, ...others }));
    for (const name of [operation, ...alike]) {
      fitting.set(name, kernel);
      whole.set(name, anySize);
    }
  }
  return whole;
}

/** Returns the kernels in the form for a driver: each enqueues its problems through `record`. */
export function boundKernels(
  kernels: KernelSet,
  forced: ForcedVariants,
  record: RecordOperation,
): DriverKernels<DeviceMemory> {
  const { definitions } = kernels;
  const bind = (name: OperationName, { run, supports }: AnyKernel<OperationContext>): Kernel<unknown> => {
    const { flops } = definitions[name] as { flops(problem: unknown): number };
    return {
      supports,
      run: (problem) => record(name, (context) => run(context, problem as never), flops(problem)),
    };
  };
  const offered = Array.from(kernelsWith(kernels, forced)).filter(
    ([name]) => definitions[name] !== undefined,
  );
  return Object.fromEntries(offered.map(([name, kernel]) => [name, bind(name, kernel)]));
}
