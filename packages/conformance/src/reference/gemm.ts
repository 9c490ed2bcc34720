import type { GemmProblem } from "@backplane/core";

/**
 * Receives one element of a result: its place (in elements from the start of the output), its value,
 * and how large the terms were that it was summed from, which scales the error that is allowed.
 */
export type Emit = (index: number, value: number, magnitude: number) => void;

/** A problem without its operands. */
export type GemmShape = Omit<GemmProblem<unknown>, "a" | "b" | "c" | "bias" | "activation" | "dtype">;

/**
 * C = alpha op(A) op(B) + beta C + bias for each matrix of the batch, with one bias for each column. The
 * magnitude of an element is |alpha| |op(A)| |op(B)| + |beta| |C| + |bias|.
 */
export function gemm(
  shape: GemmShape,
  a: Float64Array,
  b: Float64Array,
  c: Float64Array,
  emit: Emit,
  bias?: Float64Array,
): void {
  const { m, n, k, alpha, beta } = shape;
  // Steps in storage along the rows and columns of op(A) and op(B).
  const [rowA, columnA] = shape.transA ? [1, shape.lda] : [shape.lda, 1];
  const [rowB, columnB] = shape.transB ? [1, shape.ldb] : [shape.ldb, 1];
  for (let i = 0; i < shape.batch; i++)
    for (let row = 0; row < m; row++)
      for (let column = 0; column < n; column++) {
        const startA = i * shape.strideA + row * rowA;
        const startB = i * shape.strideB + column * columnB;
        let sum = 0;
        let magnitude = 0;
        for (let p = 0; p < k; p++) {
          const product = a[startA + p * columnA]! * b[startB + p * rowB]!;
          sum += product;
          magnitude += Math.abs(product);
        }
        const index = i * shape.strideC + row * shape.ldc + column;
        // Operands that are multiplied by zero are not read: a NaN there must not show.
        const product = k === 0 ? 0 : alpha * sum;
        const previous = beta === 0 ? 0 : beta * c[index]!;
        const offset = bias?.[column] ?? 0;
        const scale = Math.abs(alpha) * magnitude + Math.abs(previous) + Math.abs(offset);
        emit(index, product + previous + offset, scale);
      }
}
