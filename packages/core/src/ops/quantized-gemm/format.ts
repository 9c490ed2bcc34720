import type { FloatType } from "../../dtype.js";
import { describe } from "../../handles.js";
import type { Checks } from "../checks.js";

/** Bits of a stored weight of `quantizedGemm`. */
export type QuantizedBits = 4 | 8;

/** Weights of `quantizedGemm` that share a scale. */
export type QuantizedBlock = 32 | 64 | 128;

export const quantizedBits: readonly QuantizedBits[] = [4, 8];

export const quantizedBlocks: readonly QuantizedBlock[] = [32, 64, 128];

/** Returns the argument `bits` if there are weights of so many. */
export function checkedBits(checks: Checks, bits: unknown): QuantizedBits {
  if (!quantizedBits.includes(bits as QuantizedBits))
    checks.fail("bits", `is ${describe(bits)}; allowed: ${quantizedBits.join(", ")}`);
  return bits as QuantizedBits;
}

/** Returns the argument `block` if there are blocks of so many weights. */
export function checkedBlock(checks: Checks, block: unknown): QuantizedBlock {
  if (!quantizedBlocks.includes(block as QuantizedBlock))
    checks.fail("block", `is ${describe(block)}; allowed: ${quantizedBlocks.join(", ")}`);
  return block as QuantizedBlock;
}

/**
 * Weights in host memory, as `quantizedGemm` takes them: upload `b`, `scales` and `zeroPoints`, and pass the rest on
 * under the same names.
 */
export interface QuantizedMatrix {
  readonly bits: QuantizedBits;
  readonly block: QuantizedBlock;
  readonly scaleType: FloatType;
  readonly b: Uint8Array<ArrayBuffer>;
  /** f16 as bit patterns. */
  readonly scales: Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;
  /** Absent: `middleOf(bits)` for every block. */
  readonly zeroPoints?: Uint8Array<ArrayBuffer>;
}

/** The stored number that stands for 0 where there are no zero points. */
export function middleOf(bits: QuantizedBits): number {
  return 2 ** (bits - 1);
}
