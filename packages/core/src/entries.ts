import { BackendError } from "./errors.js";
import type { DeviceHandle, Operand } from "./handles.js";
import { Checks } from "./ops/checks.js";
import type { Operation } from "./ops/operation.js";

/** The allocation behind a handle of a switchable backend. */
export interface Entry {
  readonly bytes: number;
  /** The handle of the current backend. Undefined until a deferred `alloc` has been carried out. */
  inner: DeviceHandle | undefined;
  /** True if the contents were lost with a device and have not been replaced. */
  lost: boolean;
}

/** A checked operand. Calling it returns the operand of the backend in use. */
export type BoundOperand = () => Operand;

/** Returns the handle of the backend in use. Throws if the contents are lost or if a deferred `alloc` failed. */
export function innerHandle(entry: Entry, operation: string, argument: string): DeviceHandle {
  assertHeld(entry, operation, argument);
  if (entry.inner === undefined)
    throw new BackendError("OUT_OF_MEMORY", "alloc: an allocation asked for during a swap could not be made");
  return entry.inner;
}

/** Throws `DEVICE_LOST` if the contents of the allocation are lost. */
export function assertHeld(entry: Entry, operation: string, argument: string): void {
  if (!entry.lost) return;
  throw new BackendError(
    "DEVICE_LOST",
    `${operation}: ${argument} has lost its contents with the device that held them; allowed: free, or ` +
      `one copyHtoD or fill of all its ${entry.bytes} bytes, after which it can be used again`,
    { operation, argument },
  );
}

/** Whether an argument is an operand, rather than a scalar or absent. */
export function isOperand(value: unknown): value is Operand {
  return typeof value === "number" || (typeof value === "object" && value !== null && "handle" in value);
}

/** Returns a shallow copy of the arguments, including inherited ones, such as the getters of a class. */
function shallowCopyOf({ name, names }: Operation, args: object): Record<string, unknown> {
  new Checks(name).object("arguments", args);
  const given = args as Readonly<Record<string, unknown>>;
  const copy = { ...given };
  if (Object.getPrototypeOf(args) !== Object.prototype)
    for (const argument of names)
      if (!Object.hasOwn(copy, argument) && given[argument] !== undefined) copy[argument] = given[argument];
  return copy;
}

/** Returns a copy of checked arguments, with its own lists and scalars, so that the caller cannot change it. */
export function copyOf(operation: Operation, args: object): Record<string, unknown> {
  const copy = shallowCopyOf(operation, args);
  for (const name in copy) {
    const value = copy[name];
    if (Array.isArray(value)) copy[name] = value.map(copyOfEntry);
    else if (typeof value === "object" && value !== null && "scalar" in value)
      copy[name] = { scalar: value.scalar };
  }
  return copy;
}

/** Returns a copy of an entry of a list: a number, an operand, a shape or a node. */
function copyOfEntry(entry: unknown): unknown {
  if (Array.isArray(entry)) return [...entry];
  // Its properties may be getters of a class.
  if (isOperand(entry))
    return typeof entry === "object" ? { handle: entry.handle, byteOffset: entry.byteOffset } : entry;
  return typeof entry === "object" && entry !== null ? { ...entry } : entry;
}

/** Returns the same arguments with every operand replaced. Other values (scalars, absent ones) are kept. */
export function mapOperands<Arguments extends object>(
  operation: Operation,
  args: Arguments,
  map: (argument: string, operand: Operand) => Operand,
): Arguments {
  const mapped = shallowCopyOf(operation, args);
  for (const argument of operation.operands) {
    const held = mapped[argument];
    if (isOperand(held)) mapped[argument] = map(argument, held);
    else if (Array.isArray(held))
      mapped[argument] = held.map((one, i) => (isOperand(one) ? map(`${argument}[${i}]`, one) : one));
  }
  return mapped as Arguments;
}
