import {
  Checks,
  type ComputeBackend,
  copyCall,
  type DeviceHandle,
  type DType,
  fillCall,
  makeCall,
  type Operand,
  type OperationName,
  operationCall,
  operationNames,
  operations,
  type RecordedCall,
  withOperands,
} from "@backplane/core";
import type { ReferenceMemory } from "../elements.js";
import { literal } from "../literal.js";
import { type Patch, placeIn } from "./patches.js";
import type { Watched } from "./watched.js";

/**
 * One call with everything that it needs, as plain data: `checkCall` makes it again on any backend. An operand is
 * `{ memory, byteOffset }`: the index of an allocation in `memory`, and bytes from its start.
 */
export interface CallReplay {
  /** An operation of core, or `copyDtoD`, `fill`, `copyHtoD` or `alloc`. */
  readonly operation: string;
  readonly args: Readonly<Record<string, unknown>>;
  /** The contents of the allocations before the call, as bytes or as hexadecimal digits, two for a byte. */
  readonly memory: readonly (Uint8Array | string)[];
}

interface Placed {
  readonly memory: number;
  readonly byteOffset: number;
}

/** Returns the replay of a call. */
export function replayOf(
  { name, args, call }: Watched,
  patches: readonly Patch[],
  before: readonly ReferenceMemory[],
): CallReplay {
  const memory = before;
  if (call === undefined) return { operation: name, args, memory: [] };
  const place = (operand: Operand): Operand => {
    const { index, byteOffset } = placeIn(patches, operand);
    return { memory: index, byteOffset } satisfies Placed as never;
  };
  if (call.operation === "copyHtoD") {
    const { destination, bytes } = call;
    return { operation: name, args: { destination: place(destination), bytes }, memory };
  }
  const moved = withOperands(call, (_, operand) => place(operand));
  if (typeof moved.operation === "object")
    return { operation: name, args: (moved as { readonly args: object }).args as CallReplay["args"], memory };
  const { operation, ...rest } = moved;
  return { operation, args: rest as unknown as CallReplay["args"], memory };
}

/** Replays of at most so many bytes are printed as a line. */
const longestLine = 1024;

/** Returns a line for a test that makes the call again; undefined if it would be long. */
export function lineFor({ operation, args, memory }: CallReplay): string | undefined {
  const inDigits = (value: unknown): unknown => (value instanceof Uint8Array ? hexOf(value) : value);
  const size = [...memory, args.bytes].reduce<number>((sum, value) => sum + sizeOf(value), 0);
  if (size > longestLine) return undefined;
  const rendered = Object.fromEntries(Object.entries(args).map(([name, value]) => [name, inDigits(value)]));
  const text = literal({ operation, args: rendered, memory: memory.map(inDigits) });
  return text && `await checkCall(create, ${text})`;
}

function sizeOf(value: unknown): number {
  return value instanceof Uint8Array ? value.length : 0;
}

/** Makes the call on a backend where its allocations have these handles. */
export function makeReplayed(
  backend: ComputeBackend,
  { operation, args }: CallReplay,
  handles: readonly DeviceHandle[],
): void {
  const at = (placed: unknown): Operand => {
    const { memory, byteOffset } = placed as Placed;
    return { handle: handles[memory]!, byteOffset };
  };
  const checks = new Checks("checkCall");
  if (operation === "alloc") backend.alloc(checks.count("replay.args.bytes", args.bytes));
  else if (operation === "copyHtoD") backend.copyHtoD(at(args.destination), bytesOf(args.bytes));
  else makeCall(backend, callOf(operation, args, at, checks));
}

function callOf(
  operation: string,
  args: CallReplay["args"],
  at: (placed: unknown) => Operand,
  checks: Checks,
): RecordedCall {
  if (operation === "copyDtoD") return copyCall(at(args.destination), at(args.source), args.bytes as number);
  if (operation === "fill")
    return fillCall(at(args.destination), args.value as number, args.count as number, args.dtype as DType);
  const known = operations[checks.oneOf("replay.operation", operation as OperationName, operationNames)];
  const placed = { ...args };
  const isPlaced = (value: unknown): boolean =>
    typeof value === "object" && value !== null && "memory" in value;
  for (const name of known.operands) {
    const held = placed[name];
    if (isPlaced(held)) placed[name] = at(held);
    else if (Array.isArray(held)) placed[name] = held.map((one) => (isPlaced(one) ? at(one) : one));
  }
  return operationCall(known, placed);
}

function hexOf(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}

export function bytesOf(value: unknown): ReferenceMemory {
  if (value instanceof Uint8Array) return Uint8Array.from(value);
  if (typeof value !== "string" || !/^([\da-f]{2})*$/i.test(value))
    new Checks("checkCall").fail(
      "replay.memory",
      "has other values; allowed: bytes, or texts of hexadecimal digits, two for a byte",
    );
  const digits = value as string;
  const byteAt = (_: unknown, i: number): number => Number.parseInt(digits.slice(2 * i, 2 * i + 2), 16);
  return Uint8Array.from({ length: digits.length / 2 }, byteAt);
}
