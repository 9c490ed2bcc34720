import { WORKGROUP_SIZE } from "../../program/index.js";

/** A line is divided into parts, each of which 2^laneShift neighbouring invocations take. */
export interface LineShare {
  readonly laneShift: number;
  readonly parts: number;
}

/** Units of a line as a share of those that its invocations could take: the least, and one as good as any. */
const LEAST_SHARE = 0.5;
const GOOD_SHARE = 0.8;

/** Bytes that memory moves at once. Rows of 64 words, padded by halves of that: 300 us in place of 234 on an H200. */
const MEMORY_LINE = 128;

/**
 * How invocations share a line of so many units, of which each takes several. Places are then divided once for all
 * units of an invocation: an H200 copies a flipped matrix at 0.90 of a plain copy then, and at 0.82 otherwise. Undefined: too
 * many invocations would have no unit.
 *
 * @param leastBytes the bytes that the invocations of a part write side by side, at least
 */
export function shareOfLine(
  units: number,
  unitBytes: number,
  perInvocation: number,
  leastBytes: number = MEMORY_LINE,
): LineShare | undefined {
  let best: LineShare | undefined;
  let bestShare = 0;
  for (let laneShift = Math.log2(WORKGROUP_SIZE); unitBytes << laneShift >= leastBytes; laneShift--) {
    const perPart = perInvocation << laneShift;
    const parts = Math.ceil(units / perPart);
    const share = units / (parts * perPart);
    if (share >= GOOD_SHARE) return { laneShift, parts };
    if (share >= LEAST_SHARE && share > bestShare) [best, bestShare] = [{ laneShift, parts }, share];
  }
  return best;
}

export function workgroupsForLines(lines: number, { laneShift, parts }: LineShare): number {
  return Math.ceil((lines * parts * 2 ** laneShift) / WORKGROUP_SIZE);
}
