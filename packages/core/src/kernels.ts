import { requestedKind } from "./arguments.js";
import type { BackendDriver, Kernel } from "./driver.js";
import type { DType } from "./dtype.js";
import { Checks } from "./ops/checks.js";
import { isOfCore } from "./ops/index.js";
import type { Operation } from "./ops/operation.js";

/** Whether a driver with this kernel has an element type, and a kind or option of it. */
export function has(
  kernel: Kernel<never> | undefined,
  operation: Operation,
  dtype: DType,
  kind: string | undefined,
): boolean {
  if (!kernel?.dtypes.includes(dtype)) return false;
  if (kind === undefined) return true;
  if (kind === "epilogue") return kernel.epilogue ?? false;
  return (kernel.kinds ?? operation.kinds)?.includes(kind) ?? false;
}

/** Whether it has what a call asks for; false also for arguments that are none. */
export function takes(kernel: Kernel<never> | undefined, operation: Operation, args: object): boolean {
  if (typeof args !== "object" || args === null || Array.isArray(args)) return false;
  const { dtype = "f32" } = args as { readonly dtype?: DType };
  // Most kernels have all kinds and options: then nobody needs to know which one is asked for.
  const hasAll = kernel?.kinds === undefined && (operation.options.length === 0 || kernel?.epilogue === true);
  return has(kernel, operation, dtype, hasAll ? undefined : requestedKind(operation, args));
}

/** Throws `INVALID_ARGUMENT` if `ownKernels` has an operation of core, or one twice. */
export function checkOwnKernels<Memory>({ ownKernels = [] }: BackendDriver<Memory>): void {
  const checks = new Checks("createBackend");
  const defined = new Set<Operation>();
  for (const { operation } of ownKernels) {
    if (isOfCore(operation)) checks.fail("ownKernels", `has ${operation.name}, which belongs in kernels`);
    if (defined.has(operation)) checks.fail("ownKernels", `has ${operation.name} twice; allowed: once`);
    defined.add(operation);
  }
}
