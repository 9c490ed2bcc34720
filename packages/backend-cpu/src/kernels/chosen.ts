import { BackendError, type Operation, type OperationName } from "@backplane/core";
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
export function chosenKernels(kernels: readonly (CpuKernel | OwnCpuKernel)[] | undefined): Chosen {
  const fail = (complaint: string): never => {
    throw new BackendError("INVALID_ARGUMENT", `cpu: kernels ${complaint}`, {
      operation: "cpu",
      argument: "kernels",
    });
  };
  if (!Array.isArray(kernels)) return fail(`is ${String(kernels)}; allowed: a list of kernels`);
  const own: OwnCpuKernel[] = [];
  const definitions: Record<string, Operation<never, never>> = {};
  const operations: Record<string, CpuOperation<never>> = {};
  for (const [i, chosen] of (kernels as readonly (CpuKernel | OwnCpuKernel)[]).entries()) {
    if (isOwn(chosen)) {
      own.push(chosen);
      continue;
    }
    if (typeof chosen !== "object" || chosen === null || !("kernel" in chosen))
      fail(`has ${typeof chosen} at place ${i}; allowed: kernels for this backend`);
    for (const operation of chosen.operations) {
      if (Object.hasOwn(operations, operation.name)) fail(`has ${operation.name} twice; allowed: once`);
      definitions[operation.name] = operation;
      operations[operation.name] = chosen.kernel;
    }
  }
  return { set: kernelSet(definitions as KernelSet["definitions"], operations as CpuOperations), own };
}

/** Whether it is the kernel of an operation that core does not define. */
function isOwn(kernel: CpuKernel | OwnCpuKernel): kernel is OwnCpuKernel {
  const { operation } = (kernel ?? {}) as Partial<OwnCpuKernel>;
  return typeof operation?.resolve === "function";
}

/** For errors: how a program comes by the kernel of an operation. */
export function adviceOn(operation: OperationName): string {
  const name = operation === "batchedGemm" ? "gemm" : operation;
  return `import { ${name} } from "@backplane/backend-cpu/kernels" and add it to the option kernels`;
}
