import type { AllocOptions, ComputeBackend, HostBytes } from "./backend.js";
import type { Limits } from "./capabilities.js";
import { type DType, dtypes, elementTypes } from "./dtype.js";
import { BackendError } from "./errors.js";
import { type DeviceHandle, type DeviceSlice, describe, type HandleTable, type Operand } from "./handles.js";
import { checkNames } from "./names.js";
import { Checks } from "./ops/checks.js";
import type { Operation } from "./ops/operation.js";
import type { Region } from "./region.js";

/** The entry behind a handle, as far as argument checks need it. */
export interface Sized {
  readonly bytes: number;
}

/**
 * Returns the allocation behind an operand and the byte offset where its use starts, `before` bytes before the
 * operand's. The use covers `byteLength` bytes; the operand must be at a multiple of `alignment`. Throws
 * `INVALID_HANDLE`, `INVALID_ARGUMENT` or `OUT_OF_BOUNDS`.
 *
 * Its many arguments are on purpose: with an object for each table and operation, copies and fills, which take some 100 ns,
 * took 1.2 to 1.4 times as long.
 */
export function locate<Entry extends Sized>(
  table: HandleTable<Entry>,
  operation: string,
  argument: string,
  operand: Operand,
  byteLength: number,
  alignment: number,
  before = 0,
): { readonly entry: Entry; readonly byteOffset: number } {
  const isSlice = typeof operand === "object" && operand !== null;
  const entry = table.find(isSlice ? operand.handle : operand) ?? table.refuse(operand, operation, argument);
  const byteOffset = isSlice ? checkedOffset(operation, argument, operand, alignment) : 0;
  const start = byteOffset - before;
  if (start < 0 || start + byteLength > entry.bytes)
    throw new BackendError(
      "OUT_OF_BOUNDS",
      `${operation}: ${argument} needs bytes ${start}..${start + byteLength} of an allocation ` +
        `of ${entry.bytes} bytes`,
      { operation, argument },
    );
  return { entry, byteOffset: start };
}

/** The same as a region, whose memory is the allocation. */
export function regionIn<Entry extends Sized>(
  table: HandleTable<Entry>,
  operation: string,
  argument: string,
  operand: Operand,
  byteLength: number,
  alignment: number,
  before = 0,
): Region<Entry> {
  const { entry, byteOffset } = locate(table, operation, argument, operand, byteLength, alignment, before);
  return { memory: entry, byteOffset, byteLength };
}

/**
 * Returns the byte offset of a slice if it is a multiple of the alignment. A slice without one may have it under another
 * name, such as `offset`, which the error then tells.
 */
export function checkedOffset(
  operation: string,
  argument: string,
  slice: DeviceSlice,
  alignment: number,
): number {
  const { byteOffset } = slice;
  if (byteOffset === undefined) checkNames(operation, slice, sliceNames, argument);
  const checks = new Checks(operation);
  checks.count(`${argument}.byteOffset`, byteOffset);
  if (byteOffset % alignment !== 0)
    checks.fail(
      `${argument}.byteOffset`,
      `is ${byteOffset}; allowed: multiples of the element size, ${alignment} bytes`,
    );
  return byteOffset;
}

const sliceNames = ["handle", "byteOffset"] as const;

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
  if (!hasOnlyZero(options)) checkNames("alloc", options, allocNames);
  const zero = allocChecks.boolean("zero", options.zero ?? true);
  if (count > limits.maxAllocationBytes)
    throw new BackendError(
      "OUT_OF_MEMORY",
      `alloc: ${count} bytes asked for; allowed: at most ${limits.maxAllocationBytes} in one allocation (${live()})`,
      { operation: "alloc", argument: "bytes" },
    );
  return zero;
}

/** Whether options are valid, and say that the memory need not be zeroed. */
export function isUnzeroed(options: AllocOptions): boolean {
  return hasOnlyZero(options) && options.zero === false;
}

/** Whether options are surely well named: a look at each name takes longer than the rest of the check. */
function hasOnlyZero(options: AllocOptions): boolean {
  if (typeof options !== "object" || options === null || Array.isArray(options)) return false;
  let names = 0;
  for (const _ in options) names++;
  return names === (options.zero === undefined ? 0 : 1);
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
