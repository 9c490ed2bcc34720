import { decodeFloat16, type QuantizedBits } from "@backplane/core";
import { BLOCK, layerShapes, type ModelWeights, mappedLayer, type Shape } from "@backplane/example-story";
import { generator } from "../data.js";

/** Numbers of 4 or 8 bits in blocks of 32 with a scale of f16, in rows, as `quantizedGemm` and `MatMulNBits` take them. */
export interface HostMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly bits: QuantizedBits;
  readonly stored: Uint8Array<ArrayBuffer>;
  /** Bits of f16. */
  readonly scales: Uint16Array<ArrayBuffer>;
}

/** Random weights on the host, the same for everybody. */
export type HostWeights = ModelWeights<HostMatrix, Float32Array<ArrayBuffer>>;

export function randomWeights(shape: Shape, bits: QuantizedBits): HostWeights {
  const { size, layers, vocabulary } = shape;
  const random = generator(1);
  const matrix = (rows: number, columns: number): HostMatrix => {
    const words = new Uint32Array((rows * columns * bits) / 32);
    // Xorshift, since there are a hundred million words.
    let state = 1 + Math.floor(random() * 2 ** 31);
    for (let i = 0; i < words.length; i++) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      words[i] = state;
    }
    // Between 2^-8 and 2^-7 in f16, or with 8 bits, whose numbers are 16 times as large, between 2^-12 and 2^-11.
    const least = { 4: 0x1c00, 8: 0x0c00 }[bits];
    const scales = Uint16Array.from(
      { length: (rows * columns) / BLOCK },
      (_, i) => least + ((i * 37) & 0x3ff),
    );
    return { rows, columns, bits, stored: new Uint8Array(words.buffer), scales };
  };
  // Exact in f16.
  const norm = () => Float32Array.from({ length: size }, () => 0.5 + Math.floor(1024 * random()) / 1024);
  return {
    embedding: matrix(vocabulary, size),
    layers: Array.from({ length: layers }, () =>
      mappedLayer(layerShapes(shape), ([rows, columns]) => matrix(rows, columns), norm),
    ),
    finalNorm: norm(),
    classifier: matrix(vocabulary, size),
  };
}

/** Some rows of a matrix, in the same memory. */
export function rowsOf(
  { columns, bits, stored, scales }: HostMatrix,
  first: number,
  rows: number,
): HostMatrix {
  const [bytes, blocks] = [(columns * bits) / 8, columns / BLOCK];
  return {
    ...{ rows, columns, bits },
    stored: stored.subarray(first * bytes, (first + rows) * bytes),
    scales: scales.subarray(first * blocks, (first + rows) * blocks),
  };
}

/** The same rows in this order. */
export function reordered(matrix: HostMatrix, order: readonly number[]): HostMatrix {
  const { columns, bits } = matrix;
  const [bytes, blocks] = [(columns * bits) / 8, columns / BLOCK];
  const result: HostMatrix = {
    ...{ rows: order.length, columns, bits },
    stored: new Uint8Array(order.length * bytes),
    scales: new Uint16Array(order.length * blocks),
  };
  for (const [to, from] of order.entries()) {
    const { stored, scales } = rowsOf(matrix, from, 1);
    result.stored.set(stored, to * bytes);
    result.scales.set(scales, to * blocks);
  }
  return result;
}

/** All numbers of a matrix, row by row. */
export function widened({ bits, stored, scales }: HostMatrix): Float32Array<ArrayBuffer> {
  const factors = decodeFloat16(scales);
  const perByte = 8 / bits;
  const result = new Float32Array(perByte * stored.length);
  for (let i = 0; i < result.length; i++) {
    const number = bits === 8 ? stored[i]! : (stored[i >> 1]! >> (4 * (i & 1))) & 15;
    result[i] = (number - 2 ** (bits - 1)) * factors[Math.floor(i / BLOCK)]!;
  }
  return result;
}
