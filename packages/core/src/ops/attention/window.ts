import { type DType, dtypeBytes } from "../../dtype.js";
import type { Region } from "../../region.js";
import type { AttentionProblem } from "./index.js";

/**
 * The problem without the keys before those that the first query sees: no other query sees them either. With one query, as
 * in decoding, nothing is left of its window.
 */
export function oldestSkipped<Memory>(problem: AttentionProblem<Memory>): AttentionProblem<Memory> {
  const { dtype, oldest, keyLength, queryLength, headSize, mask, rows, k, v } = problem;
  // Rows that lie otherwise are gathered to `keyLength`, which then has to be that of both.
  if (oldest === undefined || oldest <= 0 || rows?.k !== undefined || rows?.v !== undefined) return problem;
  return {
    ...problem,
    keyLength: keyLength - oldest,
    visible: problem.visible - oldest,
    oldest: queryLength > 1 ? 0 : undefined,
    k: skipped(k, dtype, oldest * headSize),
    v: skipped(v, dtype, oldest * headSize),
    mask: mask && { ...mask, region: skipped(mask.region, mask.dtype, oldest * mask.strides[3]) },
  };
}

function skipped<Memory>(region: Region<Memory>, dtype: DType, elements: number): Region<Memory> {
  const bytes = elements * dtypeBytes[dtype];
  return { ...region, byteOffset: region.byteOffset + bytes, byteLength: region.byteLength - bytes };
}
