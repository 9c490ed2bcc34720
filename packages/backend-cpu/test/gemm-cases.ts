import type { FloatType } from "@backplane/core";
import { expect } from "chai";
import { gemmOperation } from "#src/kernels/gemm/gemm.js";
import type { Launch } from "#src/kernels/kernel.js";
import { asStored, types } from "./types.js";
import type { Workbench } from "./workbench.js";

export interface Shape {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly batch?: number;
  readonly transA?: boolean;
  readonly transB?: boolean;
  readonly alpha?: number;
  readonly beta?: number;
  /** Elements that rows are longer than they need to be. */
  readonly pad?: number;
  readonly strideA?: number;
  readonly strideB?: number;
  /** C side by side in the rows of one matrix. */
  readonly sideBySide?: boolean;
  readonly dtype?: FloatType;
}

export const hostile: readonly Shape[] = [
  { m: 1, n: 1, k: 1 },
  { m: 1, n: 1, k: 1000, transA: true },
  { m: 2, n: 3, k: 4, pad: 3, alpha: -0.5, beta: 2 },
  { m: 6, n: 8, k: 5 },
  { m: 7, n: 9, k: 257, beta: 1 },
  { m: 5, n: 17, k: 256, transB: true, alpha: 3, pad: 1 },
  { m: 13, n: 31, k: 511, transA: true, transB: true, beta: -1, pad: 5 },
  { m: 1, n: 300, k: 300 },
  { m: 1, n: 300, k: 300, transB: true, beta: 0.5 },
  { m: 300, n: 1, k: 300, transA: true },
  { m: 300, n: 1, k: 300, pad: 1 },
  { m: 4, n: 1000, k: 64, transA: true },
  { m: 3, n: 1100, k: 67, pad: 3, beta: 0.5, alpha: 2 },
  { m: 8, n: 1100, k: 67, transB: true, pad: 1, beta: -1 },
  { m: 1, n: 1100, k: 67, transB: true, pad: 1, beta: -1 },
  // Equal shares of the columns would begin a multiple of 4 KiB apart.
  { m: 1, n: 505, k: 64, transB: true },
  { m: 7, n: 254, k: 64, transB: true },
  { m: 1, n: 1100, k: 67, pad: 1, batch: 2 },
  { m: 2, n: 19, k: 3, transB: true, batch: 3, pad: 1 },
  { m: 2, n: 90, k: 31, transA: true, transB: true },
  { m: 1, n: 61, k: 600, batch: 4, strideB: 0, pad: 2 },
  { m: 70, n: 1, k: 50, batch: 3, strideA: 0 },
  { m: 63, n: 65, k: 127, transA: true, pad: 2 },
  { m: 5, n: 1031, k: 75, alpha: 2, beta: 0.5, pad: 1 },
  { m: 10, n: 300, k: 515, pad: 3, alpha: -1.5, beta: 0.5 },
  { m: 22, n: 260, k: 300, transA: true, transB: true, beta: 1, pad: 1 },
  { m: 32, n: 139, k: 71, transB: true, batch: 3, pad: 5 },
  { m: 31, n: 530, k: 22, beta: 2, pad: 1 },
  { m: 37, n: 139, k: 270, batch: 3, pad: 5, alpha: 0.5 },
  { m: 121, n: 129, k: 130, pad: 7, alpha: 1.25, beta: 0.75 },
  { m: 250, n: 70, k: 300, transB: true },
  // Three stretches of k.
  { m: 130, n: 70, k: 1030, transB: true, pad: 1, alpha: 0.5, beta: -1 },
  { m: 270, n: 41, k: 1029, transA: true, pad: 3, beta: 0.5 },
  { m: 2100, n: 20, k: 9, pad: 1 },
  { m: 20, n: 2100, k: 9, transA: true, beta: 1 },
  { m: 33, n: 2, k: 0, beta: 0.5, pad: 1 },
  { m: 33, n: 5, k: 0, beta: 0, pad: 1 },
  { m: 9, n: 10, k: 11, batch: 5, pad: 1 },
  { m: 9, n: 10, k: 11, batch: 7, strideB: 0, transB: true },
  { m: 9, n: 10, k: 11, batch: 3, strideA: 0, beta: 2 },
  { m: 12, n: 10, k: 300, batch: 4, sideBySide: true, pad: 3 },
  { m: 40, n: 50, k: 60, batch: 6, strideB: 0 },
  { m: 100, n: 90, k: 270, batch: 3, strideA: 0, strideB: 0, transA: true },
  { m: 3, n: 4, k: 2, batch: 500 },
];

/** Reproducible numbers in [-1, 1). */
function numbers(count: number, seed: number): Float32Array {
  let state = (seed * 2654435761) >>> 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

export interface Case {
  readonly shape: Required<Shape>;
  readonly lda: number;
  readonly ldb: number;
  readonly ldc: number;
  readonly strideC: number;
  readonly a: Float32Array;
  readonly b: Float32Array;
  readonly c: Float32Array;
  isElement(index: number): boolean;
}

/** Operands with NaN in all gaps of A and B, and a mark in all gaps of C. */
export function makeCase(given: Shape): Case {
  const pad = given.pad ?? 0;
  const transA = given.transA ?? false;
  const transB = given.transB ?? false;
  const { m, n, k } = given;
  const batch = given.batch ?? 1;
  const lda = (transA ? m : k) + pad;
  const ldb = (transB ? k : n) + pad;
  const ldc = given.sideBySide ? batch * (n + pad) : n + pad;
  const strideA = given.strideA ?? (transA ? k : m) * lda + pad;
  const strideB = given.strideB ?? (transB ? n : k) * ldb + pad;
  const strideC = given.sideBySide ? n + pad : m * ldc + pad;
  const shape: Required<Shape> = {
    ...{ alpha: 1, beta: 0, sideBySide: false, dtype: "f32" as const, ...given },
    ...{ batch, transA, transB, pad, strideA, strideB },
  };
  const operand = (rows: number, columns: number, ld: number, stride: number, seed: number) => {
    const extent = rows === 0 || columns === 0 ? 0 : (batch - 1) * stride + (rows - 1) * ld + columns;
    const array = new Float32Array(extent).fill(Number.NaN);
    const values = asStored(shape.dtype, numbers(extent, seed));
    const used = new Uint8Array(extent);
    for (let i = 0; i < (extent === 0 ? 0 : batch); i++)
      for (let r = 0; r < rows; r++)
        for (let q = 0; q < columns; q++) {
          const at = i * stride + r * ld + q;
          used[at] = 1;
          array[at] = values[at]!;
        }
    return { array, used };
  };
  const a = operand(transA ? k : m, transA ? m : k, lda, strideA, 1);
  const b = operand(transB ? n : k, transB ? k : n, ldb, strideB, 2);
  const c = operand(m, n, ldc, strideC, 3);
  // beta = 0 must not read C: then it holds NaN, which would leak.
  for (let at = 0; at < c.array.length; at++)
    if (c.used[at] === 0) c.array[at] = 777;
    else if (shape.beta === 0) c.array[at] = Number.NaN;
  return {
    ...{ shape, lda, ldb, ldc, strideC, a: a.array, b: b.array, c: c.array },
    isElement: (index) => c.used[index] === 1,
  };
}

/** A case on a workbench, ready to run. `result` is the whole of C, gaps included. */
export function planCase(
  bench: Workbench,
  variant: string | undefined,
  given: Case,
): { readonly plan: readonly Launch[]; result(): Float32Array } {
  const { shape, lda, ldb, ldc, strideC } = given;
  const { encode, decode } = types[shape.dtype];
  const upload = (array: Float32Array) => bench.upload(encode(array));
  const c = upload(given.c);
  const { m, n, k, alpha, beta, transA, transB, batch, strideA, strideB, dtype } = shape;
  const plan = gemmOperation(variant).plan(
    {
      ...{ dtype, m, n, k, alpha, beta, transA, transB, lda, ldb, ldc },
      ...{ batch, strideA, strideB, strideC, a: upload(given.a), b: upload(given.b), c },
      ...{ bias: undefined, activation: undefined },
    },
    bench.context,
  );
  return { plan, result: () => decode(bench.bytes(c).buffer) };
}

/** Runs a case on a workbench; answers the whole of C, gaps included. */
export function compute(bench: Workbench, variant: string | undefined, given: Case): Float32Array {
  const { plan, result } = planCase(bench, variant, given);
  bench.run(plan);
  return result();
}

/**
 * Compares with double precision: |error| <= gamma_(k + 3) * (|alpha| |A| |B| + |beta| |C|), with
 * gamma_n = n u / (1 - n u), which holds for any order of summation (Higham, "Accuracy and Stability
 * of Numerical Algorithms", 2nd ed., 3.1), plus one rounding to f16 where that is stored.
 */
export function check(given: Case, result: Float32Array): void {
  const { m, n, k, alpha, beta, transA, transB, batch, strideA, strideB, dtype } = given.shape;
  const u = 2 ** -24;
  const gamma = ((k + 3) * u) / (1 - (k + 3) * u);
  let checked = 0;
  for (let i = 0; i < batch; i++) {
    for (let r = 0; r < m; r++) {
      for (let q = 0; q < n; q++) {
        const at = i * given.strideC + r * given.ldc + q;
        let sum = 0;
        let magnitude = 0;
        for (let p = 0; p < k; p++) {
          const x = given.a[i * strideA + (transA ? p * given.lda + r : r * given.lda + p)]!;
          const y = given.b[i * strideB + (transB ? q * given.ldb + p : p * given.ldb + q)]!;
          sum += x * y;
          magnitude += Math.abs(x * y);
        }
        const old = beta === 0 ? 0 : beta * given.c[at]!;
        const exact = alpha * sum + old;
        const scale = Math.abs(alpha) * magnitude + Math.abs(old);
        const halfUlp = types[dtype].rounding(Math.abs(exact) + gamma * scale);
        const error = Math.abs(result[at]! - exact);
        if (!(error <= gamma * scale + halfUlp))
          expect.fail(`C[${i}, ${r}, ${q}] is ${result[at]}, not ${exact}: off by ${error}`);
        checked++;
      }
    }
  }
  for (let at = 0; at < result.length; at++)
    if (!given.isElement(at) && result[at] !== 777)
      expect.fail(`the gap at ${at} was written: ${result[at]}`);
  expect(checked).to.equal(batch * m * n);
}

export const label = (shape: Shape): string => JSON.stringify(shape).replaceAll('"', "");
