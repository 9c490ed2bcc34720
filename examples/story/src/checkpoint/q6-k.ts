import { float16FromBits } from "@backplane/core";

/** Weights of a block. */
export const Q6_K_WEIGHTS = 256;
/** Bytes of a block: low bits, high bits, scales of 16 weights each, and the scale of them all (f16). */
export const Q6_K_BYTES: number = 128 + 64 + 16 + 2;

/** Weights of a group whose numbers of 6 bits have their four quarters in the same bytes. */
const GROUP = 128;
const QUARTER = 32;
/** log2 of the weights that share a scale. */
const SCALED_SHIFT = 4;

/**
 * Turns blocks of the format Q6_K (ggml, `block_q6_K` in `ggml-common.h`, `dequantize_row_q6_K` in `ggml-quants.c`)
 * into their weights, which f32 has exactly: weight = scale of the block * signed byte * (number of 6 bits - 32).
 */
export function decodeQ6K(bytes: Uint8Array): Float32Array<ArrayBuffer> {
  const blocks = bytes.length / Q6_K_BYTES;
  const weights = new Float32Array(blocks * Q6_K_WEIGHTS);
  for (let block = 0; block < blocks; block++) {
    const low = block * Q6_K_BYTES;
    const high = low + 128;
    const scales = high + 64;
    const all = float16FromBits(bytes[scales + 16]! | (bytes[scales + 17]! << 8));
    let to = block * Q6_K_WEIGHTS;
    for (let group = 0; group < 2; group++)
      for (let quarter = 0; quarter < GROUP / QUARTER; quarter++) {
        // The first two quarters are in the low halves of bytes, the others in the high ones.
        const lowAt = low + (GROUP / 2) * group + QUARTER * (quarter % 2);
        const lowShift = quarter < 2 ? 0 : 4;
        const highAt = high + QUARTER * group;
        const highShift = 2 * quarter;
        for (let i = 0; i < QUARTER; i++, to++) {
          const number =
            ((bytes[lowAt + i]! >> lowShift) & 15) | (((bytes[highAt + i]! >> highShift) & 3) << 4);
          const scale = (bytes[scales + ((to % Q6_K_WEIGHTS) >> SCALED_SHIFT)]! << 24) >> 24;
          weights[to] = all * scale * (number - 32);
        }
      }
  }
  return weights;
}
