import { chooseKernels, importAdvice, type Operation, type OperationName } from "@backplane/core";
import type { CpuOperation, OwnCpuKernel } from "./kernel.js";
import { type CpuOperations, type KernelSet, kernelSet } from "./set.js";

/** What an export of `@backplane/backend-cpu/kernels` is: how this backend does an operation of core, or several alike. */
export interface CpuKernel {
  readonly operations: readonly Operation<never, never>[];
  readonly kernel: CpuOperation<never>;
}

export function cpuKernel<Problem extends object>(
  operations: readonly Operation<never, Problem>[],
  kernel: CpuOperation<Problem>,
): CpuKernel {
  return { operations: operations as readonly Operation<never, never>[], kernel };
}

/** The kernels of core's operations that a program has chosen, and those of its own operations. */
export interface Chosen {
  readonly set: KernelSet;
  readonly own: readonly OwnCpuKernel[];
}

/** Throws `INVALID_ARGUMENT` unless it is a list of kernels that has each once. */
export function chosenKernels(given: readonly (CpuKernel | OwnCpuKernel)[] | undefined): Chosen {
  const { definitions, kernels, own } = chooseKernels<CpuKernel, OwnCpuKernel>("cpu", given, "kernel");
  const operations = Object.fromEntries(
    kernels.flatMap((chosen) => chosen.operations.map(({ name }) => [name, chosen.kernel])),
  );
  return { set: kernelSet(definitions, operations as CpuOperations), own };
}

/** For errors: how a program comes by the kernel of an operation. */
export const adviceOn: (operation: OperationName) => string =
  /* @__PURE__ */ importAdvice("@backplane/backend-cpu");
