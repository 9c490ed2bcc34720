/** The operations, for the folders above. */

import {
  type Accuracy,
  type DriverKernels,
  type Kernel,
  type OperationName,
  type OperationProblems,
  operations,
} from "@backplane/core";
import type { DeviceFeatures } from "../device/index.js";
import type { DeviceMemory, KernelContext, KernelDefinition, OperationContext } from "../runtime/index.js";
import type { ForcedVariants } from "./forced.js";
import { operationEntries } from "./list.js";
import type { OperationEntry, RecordOperation } from "./operation.js";
import { type SegmentTools, segmented } from "./segments/index.js";

export type { ShapeField } from "./fields.js";
export { type ForcedVariants, forcedDetails } from "./forced.js";
export { operationEntries } from "./list.js";
export type { RecordOperation } from "./operation.js";
export { type OwnProgram, ownKernel, ownProgram } from "./own.js";
export { choiceLog, observeChoices } from "./variant.js";

/** The accuracy that the operations declare. */
export const accuracy: Accuracy = Object.fromEntries(
  operationEntries.flatMap((entry) =>
    entry.accuracy === undefined ? [] : [[entry.operation, entry.accuracy]],
  ),
);

/** Returns what the operations add to the description of a device. */
export function detailsOf(features: DeviceFeatures): Readonly<Record<string, string>> {
  return Object.assign({}, ...operationEntries.map((entry) => entry.details?.(features)));
}

/** Returns the entry whose kernel computes an operation. */
export function entryOf(name: OperationName): OperationEntry {
  return operationEntries.find(({ operation, alike }) => operation === name || alike?.includes(name))!;
}

type AnyKernel<Context> = KernelDefinition<OperationProblems<DeviceMemory>[OperationName], Context>;

/** Returns a kernel for every operation that this package has, for operands of any size. */
function kernelsWith(forced: ForcedVariants): ReadonlyMap<OperationName, AnyKernel<OperationContext>> {
  const fitting = new Map<OperationName, KernelDefinition<never>>();
  const whole = new Map<OperationName, AnyKernel<OperationContext>>();
  const others: Pick<SegmentTools<never>, "kernelOf" | "run"> = {
    kernelOf: (name) => fitting.get(name)!,
    run: (name, context, problem) => whole.get(name)!.run(context, problem),
  };
  for (const entry of operationEntries) {
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
export function boundKernels(forced: ForcedVariants, record: RecordOperation): DriverKernels<DeviceMemory> {
  const bind = (name: OperationName, { run, supports }: AnyKernel<OperationContext>): Kernel<unknown> => {
    const { flops } = operations[name] as { flops(problem: unknown): number };
    return {
      supports,
      run: (problem) => record(name, (context) => run(context, problem as never), flops(problem)),
    };
  };
  return Object.fromEntries(Array.from(kernelsWith(forced), ([name, kernel]) => [name, bind(name, kernel)]));
}
