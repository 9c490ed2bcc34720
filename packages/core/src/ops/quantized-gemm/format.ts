import type { FloatType } from "../../dtype.js";

/** Bits of a stored weight of `quantizedGemm`. */
export type QuantizedBits = 4 | 8;

/** Weights of `quantizedGemm` that share a scale. */
export type QuantizedBlock = 32 | 64 | 128;

export const quantizedBits: readonly QuantizedBits[] = [4, 8];

export const quantizedBlocks: readonly QuantizedBlock[] = [32, 64, 128];

export function isQuantizedBits(value: unknown): value is QuantizedBits {
  return value === 4 || value === 8;
}

export function isQuantizedBlock(value: unknown): value is QuantizedBlock {
  return value === 32 || value === 64 || value === 128;
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
