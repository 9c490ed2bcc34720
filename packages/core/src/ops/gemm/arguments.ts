import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import type { Activation, EpilogueArguments } from "../epilogue.js";
import type { ArgumentsOf } from "../table.js";

export const gemmTable = {
  m: { role: "extent" },
  n: { role: "extent" },
  k: { role: "extent" },
  a: { role: "reads", shape: "m x k, or k x m with transA; rows lda apart" },
  b: { role: "reads", shape: "k x n, or n x k with transB; rows ldb apart" },
  c: { role: "updates", shape: "m x n; rows ldc apart" },
  /** Rounded to f32, like beta. */
  alpha: { role: "factor", default: 1 },
  beta: { role: "factor", default: 0 },
  /** op(A) is the transpose of the stored A. */
  transA: { role: "flag", default: false },
  /** op(B) is the transpose of the stored B. */
  transB: { role: "flag", default: false },
  /** Elements from one stored row of A to the next; at least the columns of the stored A. */
  lda: { role: "stride", otherwise: "the columns of the stored A" },
  ldb: { role: "stride", otherwise: "the columns of the stored B" },
  ldc: { role: "stride", otherwise: "n" },
  /** One element for each column of C; the same for the whole batch. */
  bias: { role: "reads", shape: "n", otherwise: "none", option: true },
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

export const batchTable = {
  batch: { role: "extent" },
  /** Elements from one A to the next. */
  strideA: { role: "stride", otherwise: "rows times lda" },
  strideB: { role: "stride", otherwise: "rows times ldb" },
  strideC: { role: "stride", otherwise: "m ldc" },
} as const;

/**
 * C = alpha * op(A) * op(B) + beta * C, with op(A) m x k, op(B) k x n, C m x n. With the optional epilogue,
 * for each row i and column j:
 *
 *   C[i, j] = activation(alpha * (op(A) * op(B))[i, j] + beta * C[i, j] + bias[j])
 *
 * beta = 0 never reads C. alpha = 0 reads neither A nor B. k = 0 leaves beta * C, and the epilogue applies to
 * it too. f16: products are accumulated and all else is computed in f32; the result is rounded once at the
 * end.
 *
 * C may not overlap A, B or the bias, from its first element to its last: gaps between rows count as overlap.
 */
export interface GemmArguments extends ArgumentsOf<typeof gemmTable>, EpilogueArguments {}

/**
 * The same for i in 0..batch-1, on operands that lie `i * stride` elements further on. A stride of 0 for A or
 * B uses that matrix for the whole batch. The C matrices may follow one another or lie side by side within
 * the rows of one larger matrix, but may not overlap.
 */
export interface BatchedGemmArguments extends GemmArguments, ArgumentsOf<typeof batchTable> {}

/**
 * One form for gemm (batch 1) and batchedGemm. m, n and batch are at least 1; k may be 0. If there is only one
 * row or matrix, the distance to the next is cut to 2^30, or to the size of the row or matrix if that is larger.
 */
export interface GemmProblem<Memory> {
  readonly dtype: FloatType;
  readonly m: number;
  readonly n: number;
  /** 0 also stands for alpha = 0: A and B must then not be read. */
  readonly k: number;
  readonly alpha: number;
  readonly beta: number;
  readonly transA: boolean;
  readonly transB: boolean;
  readonly lda: number;
  readonly ldb: number;
  readonly ldc: number;
  readonly batch: number;
  readonly strideA: number;
  readonly strideB: number;
  /**
   * Either at least the extent of one C, (m - 1) * ldc + n, or the matrices lie side by side: strideC >= n
   * and (batch - 1) * strideC + n <= ldc.
   */
  readonly strideC: number;
  readonly a: Region<Memory>;
  readonly b: Region<Memory>;
  readonly c: Region<Memory>;
  /** n elements, one for each column. */
  readonly bias: Region<Memory> | undefined;
  readonly activation: Activation | undefined;
}
