import type { MaskType, ReduceKind } from "@backplane/core";

export interface Product {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly batch?: number;
  readonly transA?: boolean;
  readonly transB?: boolean;
  readonly alpha?: number;
  readonly beta?: number;
  readonly lda?: number;
  readonly ldb?: number;
  readonly ldc?: number;
  readonly strideA?: number;
  readonly strideB?: number;
  readonly strideC?: number;
}

export const products: Readonly<Record<string, Product>> = {
  "every axis too long": { batch: 2, m: 70, n: 65, k: 50, alpha: 2, beta: -1 },
  "both transposed, with gaps": {
    ...{ m: 40, n: 50, k: 70, transA: true, transB: true, lda: 43, ldb: 71, ldc: 53, beta: 1 },
  },
  "a long sum of few results": { m: 2, n: 3, k: 5000 },
  "a long sum that is added to C": { m: 3, n: 2, k: 4001, transB: true, alpha: -1, beta: 2, ldc: 5 },
  "rows that lie further apart than a binding shows": {
    ...{ m: 3, n: 4, k: 5, lda: 2500, ldb: 3001, ldc: 2700, beta: 1 },
  },
  "columns of A and rows of B far apart": {
    ...{ m: 4, n: 3, k: 6, transA: true, lda: 2501, ldb: 2499, ldc: 4 },
  },
  "results side by side": {
    ...{ batch: 4, m: 90, n: 5, k: 30, ldc: 23, strideC: 6, lda: 130, strideA: 31, beta: 1 },
  },
  "one B for the whole batch": { batch: 3, m: 9, n: 60, k: 40, strideB: 0 },
  "nothing to sum": { m: 60, n: 70, k: 4, alpha: 0, beta: 3, ldc: 75 },
};

export interface Convolution {
  readonly inputShape: readonly [number, number, number, number];
  readonly filterShape: readonly [number, number, number, number];
  readonly stride?: readonly [number, number];
  readonly padding?: readonly [number, number, number, number];
  readonly dilation?: readonly [number, number];
  readonly groups?: number;
}

export const convolutions: Readonly<Record<string, Convolution>> = {
  "images and groups": { inputShape: [3, 4, 15, 14], filterShape: [6, 2, 3, 3], groups: 2 },
  "output channels": { inputShape: [1, 3, 12, 13], filterShape: [60, 3, 3, 3], padding: [1, 1, 1, 1] },
  "an image in slabs": {
    inputShape: [1, 3, 45, 41],
    filterShape: [5, 3, 3, 5],
    ...{ stride: [2, 1], padding: [2, 0, 1, 3], dilation: [2, 1] },
  },
  "one by one": { inputShape: [1, 20, 30, 9], filterShape: [7, 20, 1, 1] },
  "many channels": { inputShape: [2, 300, 5, 5], filterShape: [2, 300, 3, 3], padding: [1, 0, 0, 1] },
  "rows longer than a binding": {
    inputShape: [1, 2, 3, 3000],
    filterShape: [2, 2, 2, 3],
    ...{ stride: [1, 2], padding: [1, 4, 0, 5] },
  },
  "a filter longer than a binding": { inputShape: [1, 1, 50, 52], filterShape: [1, 1, 40, 45] },
  "blocks in the padding": {
    inputShape: [1, 2, 30, 30],
    filterShape: [2, 2, 2, 2],
    ...{ padding: [40, 0, 50, 60], stride: [3, 3] },
  },
};

export interface Attention {
  readonly batch?: number;
  readonly heads: number;
  readonly kvHeads?: number;
  readonly queryLength: number;
  readonly keyLength: number;
  readonly headSize: number;
  readonly causal?: boolean | "lower-right";
  /** 0: none. */
  readonly window?: number;
  /** Of all heads alike. */
  readonly mask?: MaskType | "none";
}

/** Some keys are hidden, and others weighed differently; [batch, queryLength, keyLength]. */
export function maskNumbers({ batch, queryLength, keyLength, mask }: Required<Attention>): number[] {
  return Array.from({ length: batch * queryLength * keyLength }, (_, at) => {
    const isHidden = (at * 5) % 7 < 2 || Math.floor(at / keyLength) % 9 === 4;
    if (mask === "u8") return isHidden ? 0 : 1 + (at % 200);
    return isHidden ? Number.NEGATIVE_INFINITY : (at % 8) / 4;
  });
}

export const attentions: Readonly<Record<string, Attention>> = {
  "batch and heads": { batch: 2, heads: 4, kvHeads: 2, queryLength: 13, keyLength: 17, headSize: 20 },
  "queries with a mask": { heads: 1, queryLength: 120, keyLength: 30, headSize: 16, causal: true },
  "many keys": { heads: 2, queryLength: 40, keyLength: 333, headSize: 12 },
  "many keys with a mask, shared": {
    ...{ heads: 3, kvHeads: 1, queryLength: 70, keyLength: 150, headSize: 20, causal: true },
  },
  "more queries than keys, aligned at the end": {
    ...{ heads: 1, queryLength: 250, keyLength: 140, headSize: 16, causal: "lower-right" },
  },
  "a mask longer than a binding": { heads: 2, queryLength: 60, keyLength: 31, headSize: 4, mask: "f32" },
  "a mask with rows longer than a binding": {
    heads: 1,
    queryLength: 3,
    keyLength: 1500,
    headSize: 1,
    mask: "f32",
  },
  "a mask of halves, batches, and many keys": {
    ...{ batch: 2, heads: 2, kvHeads: 1, queryLength: 40, keyLength: 333, headSize: 12, mask: "f16" },
  },
  "a mask of bytes and a window": {
    ...{
      heads: 2,
      queryLength: 70,
      keyLength: 333,
      headSize: 12,
      mask: "u8",
      causal: "lower-right",
      window: 200,
    },
  },
  "a window, more queries than keys": {
    ...{ heads: 3, kvHeads: 1, queryLength: 150, keyLength: 90, headSize: 20, causal: true, window: 30 },
  },
  "heads longer than a binding": { heads: 2, queryLength: 3, keyLength: 5, headSize: 2300 },
};

const plainGradient = { batch: 1, heads: 1, kvHeads: 1, causal: false, window: 0, mask: "none" } as const;

/** Gradients of attention: that fit once they are cut, with blocks on either side, and with heads as long as a binding. */
export const gradients: Readonly<Record<string, Required<Attention>>> = {
  "batch and heads": {
    ...{ ...plainGradient, batch: 2, heads: 4, kvHeads: 2, queryLength: 13, keyLength: 17, headSize: 20 },
  },
  "many keys": {
    ...{ ...plainGradient, heads: 2, kvHeads: 1, queryLength: 40, keyLength: 133, headSize: 12 },
    ...{ causal: "lower-right", window: 70, mask: "u8" },
  },
  "many queries": {
    ...{ ...plainGradient, heads: 3, kvHeads: 1, queryLength: 90, keyLength: 50, headSize: 10, causal: true },
  },
  "heads longer than a binding": { ...plainGradient, queryLength: 3, keyLength: 5, headSize: 2300 },
};

/** The gradients where all probabilities are 1, with a scale of 1; visited one by one. */
export function gradientsOf(
  given: Required<Attention>,
  values: Readonly<Record<"q" | "k" | "v" | "out" | "outGradient", readonly number[]>>,
): Readonly<Record<"qGradient" | "kGradient" | "vGradient", number[]>> {
  const { batch, heads, kvHeads, queryLength, keyLength, headSize, causal, window, mask } = given;
  const { q, k, v, out, outGradient: g } = values;
  const masks = mask === "none" ? [] : maskNumbers(given);
  const visible = causal === false ? keyLength : causal === true ? 0 : keyLength - queryLength;
  const zeros = (like: readonly number[]) => like.map(() => 0);
  const results = { qGradient: zeros(q), kGradient: zeros(k), vGradient: zeros(v) };
  const all = Array.from({ length: headSize }, (_, d) => d);
  for (let row = 0; row < batch * heads * queryLength; row++) {
    const [head, i] = [Math.floor(row / queryLength), row % queryLength];
    const b = Math.floor(head / heads);
    const keyHead = b * kvHeads + Math.floor((head % heads) / (heads / kvHeads));
    for (let j = 0; j < keyLength; j++) {
      if (j > i + visible || (window > 0 && j <= i + visible - window)) continue;
      if (masks[(b * queryLength + i) * keyLength + j] === 0) continue;
      const [x, y] = [row * headSize, (keyHead * keyLength + j) * headSize];
      const s = all.reduce((sum, d) => sum + g[x + d]! * (v[y + d]! - out[x + d]!), 0);
      for (const d of all) {
        results.qGradient[x + d]! += s * k[y + d]!;
        results.kGradient[y + d]! += s * q[x + d]!;
        results.vGradient[y + d]! += g[x + d]!;
      }
    }
  }
  return results;
}

/** Shapes of two operands. */
export const shapePairs = [
  [[9001], [9001]],
  [
    [3, 2, 1500],
    [2, 1500],
  ],
  [
    [3, 1, 2500],
    [5, 1],
  ],
  [
    [1, 5000],
    [3, 1],
  ],
  [
    [5000, 1],
    [1, 3],
  ],
  [[1], [7000]],
  [
    [70, 1, 9, 1],
    [1, 5, 1, 8],
  ],
] as const;

/** A shape, and the axes to reduce over. */
export const reductions = [
  [[20_011], [0]],
  [[3, 5000], [1]],
  [[3, 5000], [0]],
  [[700, 30], [0]],
  [
    [2, 3, 2, 2500],
    [0, 2],
  ],
  [
    [4, 3000, 2],
    [0, 2],
  ],
  [
    [13, 40, 11, 3],
    [1, 3],
  ],
] as const;

export const countOf = (shape: readonly number[]): number =>
  shape.reduce((product, extent) => product * extent, 1);

/** What an operation on two numbers gives for two arrays, broadcast. */
export function broadcasted(
  shapeA: readonly number[],
  shapeB: readonly number[],
  x: readonly number[],
  y: readonly number[],
  operation: (a: number, b: number) => number,
): number[] {
  const rank = Math.max(shapeA.length, shapeB.length);
  const extent = (shape: readonly number[], axis: number) => shape[axis - rank + shape.length] ?? 1;
  const shape = Array.from({ length: rank }, (_, i) => Math.max(extent(shapeA, i), extent(shapeB, i)));
  return Array.from({ length: countOf(shape) }, (_, index) => {
    let [i, j, rest, stepI, stepJ] = [0, 0, index, 1, 1];
    for (let axis = rank - 1; axis >= 0; axis--) {
      const at = rest % shape[axis]!;
      rest = (rest - at) / shape[axis]!;
      if (extent(shapeA, axis) > 1) i += at * stepI;
      if (extent(shapeB, axis) > 1) j += at * stepJ;
      stepI *= extent(shapeA, axis);
      stepJ *= extent(shapeB, axis);
    }
    return operation(x[i]!, y[j]!);
  });
}

/** The formulas in double precision. */
export function reduced(
  kind: ReduceKind,
  values: readonly number[],
  shape: readonly number[],
  axes: readonly number[],
): number[] {
  const kept = shape.filter((_, axis) => !axes.includes(axis));
  const outputs = kept.reduce((product, extent) => product * extent, 1);
  const terms: number[][] = Array.from({ length: outputs }, () => []);
  for (const [index, value] of values.entries()) {
    let [rest, at, step] = [index, 0, 1];
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      const place = rest % shape[axis]!;
      rest = (rest - place) / shape[axis]!;
      if (axes.includes(axis)) continue;
      at += place * step;
      step *= shape[axis]!;
    }
    terms[at]!.push(value);
  }
  return terms.map((list) => {
    if (kind === "any") return Number(list.some((x) => x !== 0));
    if (kind === "all") return Number(list.every((x) => x !== 0));
    if (kind === "max") return list.reduce((a, b) => Math.max(a, b));
    if (kind === "prod") return list.reduce((a, b) => a * b);
    if (kind === "logSumExp") {
      const largest = Math.max(...list);
      return largest + Math.log(list.reduce((sum, x) => sum + Math.exp(x - largest), 0));
    }
    const sum = list.reduce((a, b) => a + b);
    return kind === "mean" ? sum / list.length : sum;
  });
}

export function convolved(
  given: Required<Convolution>,
  input: readonly number[],
  filter: readonly number[],
  bias?: readonly number[],
): number[] {
  const [batch, channels, height, width] = given.inputShape;
  const [outputs, groupChannels, kernelHeight, kernelWidth] = given.filterShape;
  const { stride, padding, dilation, groups } = given;
  const [top, left, bottom, right] = padding;
  const extent = (size: number, kernel: number, axis: 0 | 1) =>
    Math.floor((size - dilation[axis] * (kernel - 1) - 1) / stride[axis]) + 1;
  const outHeight = extent(height + top + bottom, kernelHeight, 0);
  const outWidth = extent(width + left + right, kernelWidth, 1);
  const results: number[] = [];
  for (let b = 0; b < batch; b++)
    for (let o = 0; o < outputs; o++)
      for (let y = 0; y < outHeight; y++)
        for (let x = 0; x < outWidth; x++) {
          let sum = bias?.[o] ?? 0;
          for (let c = 0; c < groupChannels; c++)
            for (let i = 0; i < kernelHeight; i++)
              for (let j = 0; j < kernelWidth; j++) {
                const row = y * stride[0] + i * dilation[0] - top;
                const column = x * stride[1] + j * dilation[1] - left;
                if (row < 0 || row >= height || column < 0 || column >= width) continue;
                const channel = Math.floor(o / (outputs / groups)) * groupChannels + c;
                sum +=
                  filter[((o * groupChannels + c) * kernelHeight + i) * kernelWidth + j]! *
                  input[((b * channels + channel) * height + row) * width + column]!;
              }
          results.push(sum);
        }
  return results;
}

export function attended(
  given: Required<Attention>,
  q: readonly number[],
  k: readonly number[],
  v: readonly number[],
  logs: number[] = [],
): number[] {
  const { batch, heads, kvHeads, queryLength, keyLength, headSize, causal, window, mask } = given;
  const masks = mask === "none" ? [] : maskNumbers(given);
  const visible = causal === false ? keyLength : causal === true ? 0 : keyLength - queryLength;
  const results: number[] = [];
  for (let b = 0; b < batch; b++)
    for (let h = 0; h < heads; h++)
      for (let i = 0; i < queryLength; i++) {
        const query = ((b * heads + h) * queryLength + i) * headSize;
        const keys = (b * kvHeads + Math.floor(h / (heads / kvHeads))) * keyLength;
        const seen = Math.max(0, Math.min(i + visible + 1, keyLength));
        const scores = Array.from({ length: seen }, (_, j) => {
          const masked = masks[(b * queryLength + i) * keyLength + j] ?? 0;
          if (mask === "u8" ? masked === 0 : masked === Number.NEGATIVE_INFINITY)
            return Number.NEGATIVE_INFINITY;
          if (window > 0 && j <= i + visible - window) return Number.NEGATIVE_INFINITY;
          let sum = 0;
          for (let d = 0; d < headSize; d++) sum += q[query + d]! * k[(keys + j) * headSize + d]!;
          return sum / Math.sqrt(headSize) + (mask === "u8" ? 0 : masked);
        });
        const high = Math.max(...scores);
        const isBlind = high === Number.NEGATIVE_INFINITY;
        const weights = scores.map((score) => (isBlind ? 0 : Math.exp(score - high)));
        const total = weights.reduce((a, w) => a + w, 0);
        logs.push(isBlind ? high : high + Math.log(total));
        for (let d = 0; d < headSize; d++) {
          const sum = weights.reduce((a, w, j) => a + w * v[(keys + j) * headSize + d]!, 0);
          results.push(isBlind ? 0 : sum / total);
        }
      }
  return results;
}
