import { BackendError } from "./errors.js";
import type { DeviceHandle, Operand } from "./handles.js";
import type { OperationArguments, OperationName } from "./ops/index.js";
import type { Operation } from "./ops/operation.js";

/** What stands behind a handle of a switchable backend. */
export interface Entry {
  readonly bytes: number;
  /** The handle of the current backend. Undefined until a deferred `alloc` has been carried out. */
  inner: DeviceHandle | undefined;
  /** Whether the contents went with a lost device and nothing has been written in their place. */
  lost: boolean;
}

/** An operand that was checked; gives its translation when it is called. */
export interface BoundOperand {
  (): Operand;
  readonly region: { readonly memory: Entry; readonly byteOffset: number; readonly byteLength: number };
}

/**
 * The handle of the backend in use; throws where the contents are lost, or where a deferred `alloc`
 * has failed.
 */
export function innerHandle(entry: Entry, operation: string, argument: string): DeviceHandle {
  assertHeld(entry, operation, argument);
  if (entry.inner === undefined)
    throw new BackendError("OUT_OF_MEMORY", "alloc: an allocation asked for during a swap could not be made");
  return entry.inner;
}

/** Throws `DEVICE_LOST` where the contents of an allocation are lost. */
export function assertHeld(entry: Entry, operation: string, argument: string): void {
  if (!entry.lost) return;
  throw new BackendError(
    "DEVICE_LOST",
    `${operation}: ${argument} has lost its contents with the device that held them; allowed: free, or ` +
      `one copyHtoD or fill of all its ${entry.bytes} bytes, after which it can be used again`,
    { operation, argument },
  );
}

/** Whether an argument is an operand, and not a scalar or absent. */
export function isOperand(value: unknown): value is Operand {
  return typeof value === "number" || (typeof value === "object" && value !== null && "handle" in value);
}

/** The arguments with lists and slices of their own, which the caller cannot change. */
export function copyOf(args: object): Record<string, unknown> {
  const copy = (value: unknown): unknown => {
    if (Array.isArray(value)) return [...value];
    return typeof value === "object" && value !== null ? { ...value } : value;
  };
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [name, copy(value)]));
}

/** The same arguments with every operand replaced; other values (scalars, absent ones) are kept. */
export function mapOperands<Name extends OperationName>(
  operation: Operation<Name>,
  args: OperationArguments[Name],
  map: (argument: string, operand: Operand) => Operand,
): OperationArguments[Name] {
  const mapped = { ...args } as Record<string, unknown>;
  for (const argument of operation.operands) {
    const operand = mapped[argument];
    if (isOperand(operand)) mapped[argument] = map(argument, operand);
  }
  return mapped as unknown as OperationArguments[Name];
}
