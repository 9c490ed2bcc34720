import { type BoundBlas, cblas } from "./blas.js";

/** Shapes (m, n, k) with and without whole vectors, small and blocked. */
const shapes = [
  [3, 5, 7],
  [16, 32, 300],
  [67, 45, 33],
] as const;

/** Elements by which the rows of each matrix are longer than necessary. */
const pad = 3;
/** The value between the rows of C. */
const mark = 777;

/**
 * Calls a library's sgemm on problems with known results. This rejects a library with another interface, or
 * one that keeps less of IEEE 754 than this backend declares. Returns what is wrong, if anything.
 */
export function checkSgemm({ koffi, sgemm }: Pick<BoundBlas, "koffi" | "sgemm">): string | undefined {
  for (const [m, n, k] of shapes) {
    const [lda, ldb, ldc] = [k + pad, k + pad, n + pad];
    const a = new Float32Array(m * lda).fill(Number.NaN);
    const b = new Float32Array(n * ldb).fill(Number.NaN);
    const c = new Float32Array(m * ldc).fill(mark);
    for (let row = 0; row < m; row++) c.fill(Number.NaN, row * ldc, row * ldc + n);
    /** Computes C = 2 * A * transpose(B) + beta * C. Returns whether all of C is as expected. */
    const gives = (beta: number, expected: (row: number, column: number) => number): boolean => {
      const [aAddress, bAddress, cAddress] = [a, b, c].map((array) => Number(koffi.address(array)));
      const operands = [2, aAddress!, lda, bAddress!, ldb, beta, cAddress!, ldc] as const;
      sgemm(cblas.rowMajor, cblas.noTranspose, cblas.transpose, m, n, k, ...operands);
      return c.every((value, i) => {
        const column = i % ldc;
        return Object.is(value, column < n ? expected((i - column) / ldc, column) : mark);
      });
    };

    // Whole numbers, exact in any order of summing: A = 1, -2, 3, ... by row, B = 1.
    const sign = (row: number): number => (row % 2 === 0 ? row + 1 : -row - 1);
    for (let row = 0; row < m; row++) a.fill(sign(row), row * lda, row * lda + k);
    for (let row = 0; row < n; row++) b.fill(1, row * ldb, row * ldb + k);
    const shape = `${m} x ${n} x ${k}`;
    if (!gives(0, (row) => 2 * k * sign(row))) return `is wrong for ${shape}, or reads C where beta is 0`;
    if (!gives(1, (row) => 4 * k * sign(row))) return `is wrong for ${shape} where beta is 1`;

    // 2^-140 is subnormal.
    for (let row = 0; row < m; row++) {
      a.fill(0, row * lda, row * lda + k);
      a[row * lda] = 2 ** -140;
    }
    if (!gives(0, () => 2 ** -139)) return "flushes subnormal numbers";

    // A NaN in the last row of B belongs to the last column of C, even times zero.
    b[(n - 1) * ldb + k - 1] = Number.NaN;
    if (!gives(0, (_, column) => (column === n - 1 ? Number.NaN : 2 ** -139))) return "loses or spreads NaN";
  }
  return undefined;
}
