import { describe } from "./handles.js";
import { Checks } from "./ops/checks.js";
import type { OperationName, Operations } from "./ops/index.js";
import type { Operation } from "./ops/operation.js";

/** How a backend does an operation of core, or several alike. A backend keeps what it needs for that beside them. */
export interface KernelOfOperations {
  readonly operations: readonly Operation<never, object>[];
}

/** How a backend does an operation that core does not define. */
export interface KernelOfOwn {
  readonly operation: Operation;
}

/** The kernels that a program has chosen for a backend. */
export interface ChosenKernels<Kernel, Own> {
  /** What core knows about the operations of `kernels`, by name, for `createBackendOf`. */
  readonly definitions: Partial<Operations>;
  readonly kernels: readonly Kernel[];
  readonly own: readonly Own[];
}

/**
 * Divides the list of kernels that a program passes to a backend into those of core's operations and others. Throws
 * `INVALID_ARGUMENT`, in the name of the backend, unless it is a list that has each operation of core once.
 *
 * @param mark a property that all kernels of this backend for operations of core have, and those of others have not
 */
export function chooseKernels<Kernel extends KernelOfOperations, Own extends KernelOfOwn>(
  backend: string,
  given: readonly (Kernel | Own)[] | undefined,
  mark: keyof Kernel & string,
): ChosenKernels<Kernel, Own> {
  const fail = (complaint: string): never => new Checks(backend).fail("kernels", complaint);
  if (!Array.isArray(given)) return fail(`is ${describe(given)}; allowed: a list of kernels`);
  const own: Own[] = [];
  const kernels: Kernel[] = [];
  const definitions: Record<string, Operation<never, object>> = {};
  for (const [i, chosen] of (given as readonly (Kernel | Own)[]).entries()) {
    if (isOwn(chosen)) {
      own.push(chosen);
      continue;
    }
    if (typeof chosen !== "object" || chosen === null || !(mark in chosen))
      fail(`has ${typeof chosen} at place ${i}; allowed: kernels for this backend`);
    for (const operation of chosen.operations) {
      if (Object.hasOwn(definitions, operation.name)) fail(`has ${operation.name} twice; allowed: once`);
      definitions[operation.name] = operation;
    }
    kernels.push(chosen);
  }
  return { definitions: definitions as Partial<Operations>, kernels, own };
}

function isOwn<Kernel extends KernelOfOperations, Own extends KernelOfOwn>(
  kernel: Kernel | Own,
): kernel is Own {
  const { operation } = (kernel ?? {}) as Partial<KernelOfOwn>;
  return typeof operation?.resolve === "function";
}

/** Returns what `createBackendOf` says of an absent operation, if a package exports its kernels from `/kernels`. */
export function importAdvice(packageName: string): (operation: OperationName) => string {
  return (operation) => {
    const name = operation === "batchedGemm" ? "gemm" : operation;
    return `import { ${name} } from "${packageName}/kernels" and add it to the option kernels`;
  };
}
