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
  /** In order of place. They do not overlap, and those of one type do not touch. */
  readonly #runs: Run[] = [];

  note({ start, end, dtype }: Run): void {
    if (end <= start) return;
    const first = this.#firstFrom(start);
    let last = first;
    let [from, to] = [start, end];
    const [before, after]: [Run[], Run[]] = [[], []];
    for (let run = this.#runs[last]; run !== undefined && run.start <= end; run = this.#runs[++last])
      if (run.dtype === dtype) {
        from = Math.min(from, run.start);
        to = Math.max(to, run.end);
      } else {
        if (run.start < start) before.push({ ...run, end: start });
        if (run.end > end) after.push({ ...run, start: end });
      }
    this.#runs.splice(first, last - first, ...before, { start: from, end: to, dtype }, ...after);
  }

  /** Returns runs that cover a region, in order. */
  within(start: number, end: number): readonly Run[] {
    const covering: Run[] = [];
    let at = start;
    for (let i = this.#firstFrom(start); at < end; i++) {
      const run = this.#runs[i];
      const next = Math.min(end, run?.start ?? end);
      if (at < next) covering.push({ start: at, end: next, dtype: "u8" });
      at = Math.max(at, next);
      if (run === undefined || at >= end) break;
      const to = Math.min(end, run.end);
      if (at < to) covering.push({ start: at, end: to, dtype: run.dtype });
      at = Math.max(at, to);
    }
    return covering;
  }

  /** Returns the place of the first run that ends at `place` or after it. */
  #firstFrom(place: number): number {
    let [low, high] = [0, this.#runs.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#runs[middle]!.end < place) low = middle + 1;
      else high = middle;
    }
    return low;
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
