import type { DeviceHandle } from "../../handles.js";

/*
 * A trace is a stream of bytes: 8 bytes of header, and records. A record is its length in bytes, as a number of variable length (7
 * bits a byte, the lowest first, the highest bit set in all but the last), and a list of values, the first of which is the
 * kind of record. The last record of a whole trace is `end`. Allocations, contents, downloads and recordings have
 * numbers, counted from 0 in the order of their records.
 */

/** "BPTRACE" and the version of the format. */
export const header: Uint8Array = Uint8Array.of(0x42, 0x50, 0x54, 0x52, 0x41, 0x43, 0x45, 1);

/** Lists and objects are this deep in each other at most, so that a damaged trace cannot exhaust the stack. */
export const deepestValue = 64;

/** Of a `bigint`. Seeds, offsets and such have 20. */
export const mostDigits = 40;

/** How a value begins. */
export const tags = {
  undefined: 0,
  null: 1,
  false: 2,
  true: 3,
  /** A whole number, and the negative of one: a number of variable length. */
  whole: 4,
  negative: 5,
  /** 8 bytes, the lowest first. */
  double: 6,
  /** Its decimal digits, as a text. */
  bigint: 7,
  /** Length in bytes, and UTF-8; it gets the next number among the texts. */
  text: 8,
  /** The number of an earlier text. */
  textAgain: 9,
  /** Count, and values. */
  list: 10,
  /** Count, and for each property its name, as a text, and its value. */
  object: 11,
  /** The number of an allocation; of a slice, also its offset in bytes. */
  handle: 12,
  slice: 13,
  /** Length, and bytes. */
  bytes: 14,
} as const;

/** An operand, with the number of its allocation in place of the handle. */
export class TracedOperand {
  readonly handle: DeviceHandle;
  readonly byteOffset: number | undefined;

  constructor(allocation: number, byteOffset: number | undefined) {
    this.handle = allocation as DeviceHandle;
    this.byteOffset = byteOffset;
  }
}

export type Bytes = Uint8Array<ArrayBuffer>;

/** A call as it is traced: `copyDtoD`, `fill`, or an operation by name with its arguments. */
export type TracedCall =
  | readonly ["copyDtoD", destination: TracedOperand, source: TracedOperand, bytes: number]
  | readonly ["fill", destination: TracedOperand, value: number, count: number, dtype: string]
  | readonly ["run", operation: string, args: object];

/** A recorded call, or the calls of a part that varies. */
export type TracedPart = readonly [varies: boolean, calls: readonly TracedCall[]];

/** Everything that a trace may hold. */
export type TraceRecord =
  | TracedCall
  | readonly ["alloc", bytes: number, zero: boolean]
  | readonly ["free", allocation: number]
  | readonly ["content", bytes: Bytes]
  | readonly ["copyHtoD", destination: TracedOperand, content: number]
  /** A read begins. */
  | readonly ["copyDtoH", source: TracedOperand, bytes: number, isSynchronous: boolean]
  /** A read has ended: with this content, or in an error with this code. */
  | readonly ["read", download: number, content: number | undefined, code: string | undefined]
  | readonly ["synchronize"]
  | readonly ["flush"]
  | readonly ["trim"]
  | readonly ["record", parts: readonly TracedPart[]]
  /** A run: operands in pairs, and the parts that vary and were made again, in pairs of number and calls. */
  | readonly [
      "play",
      recording: number,
      operands: readonly (readonly [TracedOperand, TracedOperand])[],
      changed: readonly (readonly [part: number, calls: readonly TracedCall[]])[],
    ]
  | readonly ["forget", recording: number]
  /** A call that could not be traced. */
  | readonly ["omitted", operation: string, reason: string]
  | readonly ["end"];
