import type { ComputeBackend } from "./backend.js";
import { BackendError } from "./errors.js";
import type { DeviceHandle, Operand } from "./handles.js";
import type { OperationArguments, OperationName } from "./ops/index.js";
import type { Operation } from "./ops/operation.js";

/** Allocations are moved through the host in pieces of this size, so that a swap needs little memory. */
const pieceBytes = 16 * 2 ** 20;

/** What stands behind a handle of a switchable backend. */
export interface Entry {
  readonly bytes: number;
  /** The handle of the current backend. Undefined until a deferred `alloc` has been carried out. */
  inner: DeviceHandle | undefined;
}

/** An operand that was checked; gives its translation when it is called. */
export interface BoundOperand {
  (): Operand;
  readonly region: { readonly memory: Entry; readonly byteOffset: number; readonly byteLength: number };
}

/** The handle of the backend in use; throws where a deferred `alloc` has failed. */
export function innerHandle(entry: Entry): DeviceHandle {
  if (entry.inner === undefined)
    throw new BackendError("OUT_OF_MEMORY", "alloc: an allocation asked for during a swap could not be made");
  return entry.inner;
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

/** Copies an allocation of one backend into a new one of the other. */
export async function move(
  from: DeviceHandle,
  bytes: number,
  old: ComputeBackend,
  next: ComputeBackend,
): Promise<DeviceHandle> {
  const to = next.alloc(bytes, { zero: false });
  for (let byteOffset = 0; byteOffset < bytes; byteOffset += pieceBytes) {
    const piece = new Uint8Array(Math.min(pieceBytes, bytes - byteOffset));
    await old.copyDtoH(piece, { handle: from, byteOffset });
    next.copyHtoD({ handle: to, byteOffset }, piece);
  }
  return to;
}
