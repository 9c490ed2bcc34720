import { type DeviceHandle, type DType, dtypeBytes } from "@backplane/core";
import type { Range } from "../kit/range.js";

/** Numbers that an allocation holds, from some byte on. */
export interface Content {
  readonly dtype: DType;
  readonly byteOffset: number;
  readonly count: number;
  readonly range: Range;
}

/** One allocation, on the backend and with the oracle. */
export interface Slot {
  readonly handle: DeviceHandle;
  readonly bytes: number;
  content: Content | undefined;
  /** Reads the output that an operation has left here, which has to be done before it is overwritten. */
  fetch: (() => void) | undefined;
  twin: DeviceHandle | undefined;
}

/** An operand: elements of a slot, and between which numbers they lie. */
export interface Location {
  readonly slot: Slot;
  readonly byteOffset: number;
  readonly count: number;
  readonly range: Range;
}

/** Whether some of these bytes are among the numbers. */
export function touches(content: Content, byteOffset: number, length: number): boolean {
  return length > 0 && byteOffset < endOf(content) && content.byteOffset < byteOffset + length;
}

/**
 * Returns the numbers after `length` bytes from `from` on are copied to `to`; undefined unless all of them
 * move and may lie there.
 */
export function moved(content: Content, from: number, to: number, length: number): Content | undefined {
  const arrives =
    from <= content.byteOffset &&
    endOf(content) <= from + length &&
    (to - from) % dtypeBytes[content.dtype] === 0;
  return arrives ? { ...content, byteOffset: content.byteOffset + to - from } : undefined;
}

function endOf({ dtype, byteOffset, count }: Content): number {
  return byteOffset + count * dtypeBytes[dtype];
}
