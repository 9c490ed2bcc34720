import { type DType, dtypeBytes, elementTypes } from "../../dtype.js";
import type { Bytes } from "./format.js";

/** Bytes of an allocation that hold elements of one type. */
export interface Run {
  readonly start: number;
  readonly end: number;
  readonly dtype: DType;
}

/** The types of the elements that calls have left in an allocation. What no call has computed is bytes. */
export class ElementTypes {
  /** The latest last. */
  #runs: readonly Run[] = [];

  note(run: Run): void {
    if (run.end <= run.start) return;
    this.#runs = [...this.#runs.filter(({ start, end }) => start < run.start || end > run.end), run];
  }

  /** Returns runs that cover a region, in order. */
  within(start: number, end: number, latest: number = this.#runs.length - 1): readonly Run[] {
    if (end <= start) return [];
    for (let i = latest; i >= 0; i--) {
      const run = this.#runs[i]!;
      const [from, to] = [Math.max(start, run.start), Math.min(end, run.end)];
      if (from < to)
        return [
          ...this.within(start, from, i - 1),
          { start: from, end: to, dtype: run.dtype },
          ...this.within(to, end, i - 1),
        ];
    }
    return [{ start, end, dtype: "u8" }];
  }
}

/** The largest difference between two reads of the same bytes. */
export interface Difference {
  /** Bytes from the start of the read. */
  readonly byteOffset: number;
  readonly dtype: DType;
  readonly recorded: number;
  readonly replayed: number;
  /** The size of the difference, divided by the largest recorded number of the same type next to it; whole numbers: the size itself. */
  readonly difference: number;
}

/** Returns the largest difference between what was recorded and what came out; undefined if there is none. */
export function differenceOf(recorded: Bytes, replayed: Bytes, runs: readonly Run[]): Difference | undefined {
  let worst: Difference | undefined;
  for (const { start, end, dtype } of runs) {
    const size = dtypeBytes[dtype];
    const first = start + ((size - (start % size)) % size);
    let scale = 0;
    if (elementTypes[dtype].range === undefined)
      for (let at = first; at + size <= end; at += size) {
        const value = Math.abs(elementAt(recorded, at, dtype));
        if (value > scale && value < Number.POSITIVE_INFINITY) scale = value;
      }
    for (let at = first; at + size <= end; at += size) {
      const [want, got] = [elementAt(recorded, at, dtype), elementAt(replayed, at, dtype)];
      if (want === got || (Number.isNaN(want) && Number.isNaN(got))) continue;
      const apart = Math.abs(want - got) / (scale === 0 ? 1 : scale);
      const difference = Number.isNaN(apart) ? Number.POSITIVE_INFINITY : apart;
      if (worst === undefined || difference > worst.difference)
        worst = { byteOffset: at, dtype, recorded: want, replayed: got, difference };
    }
  }
  return worst;
}

function elementAt(bytes: Bytes, at: number, dtype: DType): number {
  const { bytes: size, fromBits } = elementTypes[dtype];
  let bits = 0;
  for (let i = size - 1; i >= 0; i--) bits = bits * 256 + bytes[at + i]!;
  return fromBits(bits);
}
