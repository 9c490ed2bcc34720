import { random } from "./support.js";

export interface WholeSizes {
  readonly extents: readonly [m: number, n: number, k: number];
  readonly bits: 4 | 8;
  readonly block: number;
  /** Whether zero points are drawn; otherwise they are what a call without them has. */
  readonly zeroPoints: boolean;
  /** Whether a bias is drawn; otherwise it is 0. */
  readonly bias: boolean;
  readonly beta: number;
}

/** Whole numbers for quantizedGemm, and its results behind relu, exactly. */
export interface WholeProduct {
  readonly blocks: number;
  readonly a: Float32Array;
  readonly b: Float32Array;
  readonly scales: Float32Array;
  readonly zeros: Float32Array;
  readonly bias: Float32Array;
  /** C before the call. */
  readonly old: Float32Array;
  readonly results: Float32Array;
}

export function wholeProduct({ extents, bits, block, zeroPoints, bias, beta }: WholeSizes): WholeProduct {
  const [m, n, k] = extents;
  const next = random(m + 3 * n + 7 * k);
  const whole = (least: number, values: number, count: number) =>
    Float32Array.from({ length: count }, () => least + Math.floor(values * next()));
  const blocks = Math.ceil(k / block);
  const a = whole(-1, 3, m * k);
  const b = whole(0, 256, (n * blocks * block * bits) / 8);
  const scales = whole(-2, 5, n * blocks);
  const zeros = zeroPoints
    ? whole(0, 2 ** bits, n * blocks)
    : new Float32Array(n * blocks).fill(2 ** (bits - 1));
  const offsets = bias ? whole(-9, 19, n) : new Float32Array(n);
  const old = whole(-9, 19, m * n);
  const results = Float32Array.from({ length: m * n }, (_, i) => {
    const [row, column] = [Math.floor(i / n), i % n];
    let sum = offsets[column]! + beta * old[i]!;
    for (let p = 0; p < k; p++) {
      const at = column * blocks * block + p;
      const q = bits === 8 ? b[at]! : (b[at >> 1]! >> (4 * (at % 2))) & 15;
      const place = column * blocks + Math.floor(p / block);
      sum += a[row * k + p]! * (scales[place]! * (q - zeros[place]!));
    }
    return Math.max(sum, 0);
  });
  return { blocks, a, b, scales, zeros, bias: offsets, old, results };
}
