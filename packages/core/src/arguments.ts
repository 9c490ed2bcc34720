import type { AllocOptions, ComputeBackend, HostBytes } from "./backend.js";
import type { Limits } from "./capabilities.js";
import { type DType, dtypeBytes, dtypes, elementTypes } from "./dtype.js";
import { BackendError } from "./errors.js";
import { type DeviceHandle, describe, type HandleTable, type Operand } from "./handles.js";
import { checkNames } from "./names.js";
import { Checks } from "./ops/checks.js";
import type { Operation } from "./ops/operation.js";
import type { Binder } from "./ops/reader.js";

/** The entry behind a handle, as far as argument checks need it. */
export interface Sized {
  readonly bytes: number;
}

/**
 * Finds the operands of one operation among the handles of a table. The memory of a region is the entry of its handle.
 * Throws `INVALID_HANDLE`, `INVALID_ARGUMENT` or `OUT_OF_BOUNDS`.
 */
export function binderIn<Entry extends Sized>(table: HandleTable<Entry>, operation: string): Binder<Entry> {
  return {
    region(argument, operand, elements, dtype, before = 0) {
      const size = dtypeBytes[dtype];
      const byteLength = elements * size;
      const isSlice = typeof operand === "object" && operand !== null;
      const entry =
        table.find(isSlice ? operand.handle : operand) ?? table.refuse(operand, operation, argument);
      const place = isSlice ? checkedOffset(operation, argument, operand.byteOffset, size) : 0;
      const byteOffset = place - before * size;
      if (byteOffset < 0 || byteOffset + byteLength > entry.bytes)
        throw new BackendError(
          "OUT_OF_BOUNDS",
          `${operation}: ${argument} needs bytes ${byteOffset}..${byteOffset + byteLength} of an allocation ` +
            `of ${entry.bytes} bytes`,
          { operation, argument },
        );
      return { memory: entry, byteOffset, byteLength };
    },
  };
}

/** Returns the byte offset of a slice if it is a multiple of the alignment. */
function checkedOffset(operation: string, argument: string, byteOffset: number, alignment: number): number {
  const checks = new Checks(operation);
  checks.count(`${argument}.byteOffset`, byteOffset);
  if (byteOffset % alignment !== 0)
    checks.fail(
      `${argument}.byteOffset`,
      `is ${byteOffset}; allowed: multiples of the element size, ${alignment} bytes`,
    );
  return byteOffset;
}

/** Whether an argument may be a scalar. If so, a plain number there is probably a scalar without its braces. */
export function takesScalar(operation: Operation | undefined, argument: string): boolean {
  const specification = operation?.arguments[argument];
  return specification !== undefined && "scalar" in specification;
}

/** Returns the same operand for another backend: the offset stays, `translate` replaces the handle. */
export function withHandle(operand: Operand, translate: (handle: DeviceHandle) => DeviceHandle): Operand {
  return typeof operand === "object" && operand !== null
    ? { handle: translate(operand.handle), byteOffset: operand.byteOffset }
    : translate(operand);
}

/** Returns the bytes of a host array. Their length stays fixed, even if the buffer can grow. */
export function hostBytes(
  operation: string,
  argument: string,
  value: HostBytes,
): Uint8Array<ArrayBufferLike> {
  try {
    if (!ArrayBuffer.isView(value)) {
      // DataView takes buffers of other realms too, and nothing else.
      const { buffer, byteLength } = new DataView(value as ArrayBuffer);
      return new Uint8Array(buffer, 0, byteLength);
    }
    const { buffer, byteOffset, byteLength } = value;
    // An array whose buffer was shortened to nothing looks empty, but its methods throw.
    if (byteLength === 0) (value as Partial<Uint8Array>).at?.(0);
    return new Uint8Array(buffer, byteOffset, byteLength);
  } catch {
    const isBuffer = ArrayBuffer.isView(value) || /Buffer\]$/.test(Object.prototype.toString.call(value));
    const problem = isBuffer
      ? "is detached, or was shortened; allowed: live buffers"
      : `is ${describe(value)}; allowed: typed arrays, DataView, ArrayBuffer, SharedArrayBuffer`;
    return new Checks(operation).fail(argument, problem);
  }
}

const allocChecks = new Checks("alloc");
const allocNames = ["zero"] as const;

/**
 * Checks the arguments of `alloc`. Returns whether the allocation must be zeroed. `live` says what there is already, for
 * the error.
 */
export function checkAlloc(
  bytes: unknown,
  options: AllocOptions,
  limits: Limits,
  live: () => string,
): boolean {
  const count = allocChecks.count("bytes", bytes);
  checkNames("alloc", options, allocNames);
  const zero = allocChecks.boolean("zero", options.zero ?? true);
  if (count > limits.maxAllocationBytes)
    throw new BackendError(
      "OUT_OF_MEMORY",
      `alloc: ${count} bytes asked for; allowed: at most ${limits.maxAllocationBytes} in one allocation (${live()})`,
      { operation: "alloc", argument: "bytes" },
    );
  return zero;
}

/** Returns an element repeated to a 32-bit pattern. */
export function fillPattern(value: number, dtype: DType): number {
  const { bytes, toBits } = elementTypes[dtype];
  return (toBits(value) * repetitions[bytes]) >>> 0;
}

/** What a bit pattern of 1, 2 or 4 bytes is multiplied with to fill 4. */
const repetitions = { 1: 0x01010101, 2: 0x00010001, 4: 1 } as const;

/** Checks those arguments of `fill` that are not operands. */
export function checkFill(value: unknown, count: unknown, dtype: DType): void {
  const checks = new Checks("fill");
  checks.oneOf("dtype", dtype, dtypes);
  checks.count("count", count);
  if (typeof value !== "number") checks.fail("value", `is ${describe(value)}; allowed: a number`);
  // Any number may be rounded to a fraction, NaN among them.
  if (elementTypes[dtype].range !== undefined) checks.scalar("value", value, dtype);
}

/** Throws `UNSUPPORTED` if the backend cannot read synchronously. */
export function assertReadsSynchronously({ name, capabilities }: ComputeBackend): void {
  if (capabilities.synchronousReads) return;
  throw new BackendError(
    "UNSUPPORTED",
    `copyDtoHSync: ${name} cannot read here while the caller waits (capabilities.synchronousReads is false); ` +
      "await copyDtoH() instead",
    { operation: "copyDtoHSync" },
  );
}
