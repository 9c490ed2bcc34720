import { BackendError, type Operation, type OperationName } from "@backplane/core";
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
export function chosenKernels(kernels: readonly (WebGpuKernel | OwnWebGpuKernel)[] | undefined): Chosen {
  const fail = (complaint: string): never => {
    throw new BackendError("INVALID_ARGUMENT", `webgpu: kernels ${complaint}`, {
      operation: "webgpu",
      argument: "kernels",
    });
  };
  if (!Array.isArray(kernels)) return fail(`is ${String(kernels)}; allowed: a list of kernels`);
  const own: OwnWebGpuKernel[] = [];
  const definitions: Record<string, Operation<never, object>> = {};
  const entries = new Set<OperationEntry>();
  const add = ({ entry, parts }: WebGpuKernel): void => {
    entries.add(entry as OperationEntry);
    for (const part of parts) add(part);
  };
  for (const [i, chosen] of (kernels as readonly (WebGpuKernel | OwnWebGpuKernel)[]).entries()) {
    if (isOwn(chosen)) {
      own.push(chosen);
      continue;
    }
    if (typeof chosen !== "object" || chosen === null || !("entry" in chosen))
      fail(`has ${typeof chosen} at place ${i}; allowed: kernels for this backend`);
    for (const operation of chosen.operations) {
      if (Object.hasOwn(definitions, operation.name)) fail(`has ${operation.name} twice; allowed: once`);
      definitions[operation.name] = operation;
    }
    add(chosen);
  }
  return { set: new KernelSet(definitions as KernelSet["definitions"], [...entries]), own };
}

/** Whether it is the kernel of an operation that core does not define. */
function isOwn(kernel: WebGpuKernel | OwnWebGpuKernel): kernel is OwnWebGpuKernel {
  const { operation } = (kernel ?? {}) as Partial<OwnWebGpuKernel>;
  return typeof operation?.resolve === "function";
}

/** For errors: how a program comes by the kernel of an operation. */
export function adviceOn(operation: OperationName): string {
  const name = operation === "batchedGemm" ? "gemm" : operation;
  return `import { ${name} } from "@backplane/backend-webgpu/kernels" and add it to the option kernels`;
}
