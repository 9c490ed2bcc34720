import type { FloatType, GemmProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { productSum } from "../../tolerance.js";
import { finishing } from "../epilogue.js";
import type { Emit, Evaluate } from "../operation.js";

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

const nothing = new Float64Array(0);

/** For gemm and batchedGemm. Reads A and B only if k > 0, and C only if beta is not 0. */
export const evaluate: Evaluate<GemmProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, a, b, c, k, alpha, beta, bias, activation } = problem;
  const read = (isRead: boolean, region: typeof a) => (isRead ? memory.read(region, dtype) : nothing);
  const [first, second, before] = [read(k > 0, a), read(k > 0, b), read(beta !== 0, c)];
  const offset = bias && memory.read(bias, dtype);
  const bound = numerics && ((type: FloatType) => productSum(roundings(k, bias), type, numerics, alpha));
  const emit = finishing(memory.write(c, dtype), activation, dtype, bound, numerics);
  gemm(problem, first, second, before, emit, offset);
};

/** Returns the roundings of one element: its products, alpha, beta, their sum, and the bias. */
export function roundings(k: number, bias: unknown): number {
  return k + 3 + (bias ? 1 : 0);
}
