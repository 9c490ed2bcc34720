import { chooseKernels, importAdvice, type Operation, type OperationName } from "@backplane/core";
import type { OperationEntry } from "./operation.js";
import type { OwnWebGpuKernel } from "./own-kernel.js";
import { KernelSet } from "./set.js";
import type { WebGpuKernel } from "./webgpu-kernel.js";

/** For the exports of `@backplane/backend-webgpu/kernels`; `parts`: see there. */
export function webGpuKernel(
  operations: readonly Operation<never, object>[],
  entry: Pick<OperationEntry, "operation">,
  parts: readonly WebGpuKernel[] = [],
): WebGpuKernel {
  return { operations, entry, parts };
}

/** The kernels of core's operations that a program has chosen, and those of its own operations. */
export interface Chosen {
  readonly set: KernelSet;
  readonly own: readonly OwnWebGpuKernel[];
}

/** Throws `INVALID_ARGUMENT` unless it is a list of kernels that has each once. */
export function chosenKernels(given: readonly (WebGpuKernel | OwnWebGpuKernel)[] | undefined): Chosen {
  const { definitions, kernels, own } = chooseKernels<WebGpuKernel, OwnWebGpuKernel>(
    "webgpu",
    given,
    "entry",
  );
  const entries = new Set<OperationEntry>();
  const add = ({ entry, parts }: WebGpuKernel): void => {
    entries.add(entry as OperationEntry);
    for (const part of parts) add(part);
  };
  for (const kernel of kernels) add(kernel);
  return { set: new KernelSet(definitions, [...entries]), own };
}

/** For errors: how a program comes by the kernel of an operation. */
export const adviceOn: (operation: OperationName) => string =
  /* @__PURE__ */ importAdvice("@backplane/backend-webgpu");
