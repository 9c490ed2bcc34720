// Part of the worker's script: imports by relative path only.

/** The name of the kernel that a library computes. */
export const sgemmName = "gemm_blas_f32";

/** The parameter block of that kernel: words of 32 bits. */
export const sgemmTypes = {
  m: "i32",
  n: "i32",
  k: "i32",
  transA: "i32",
  transB: "i32",
  /** Leading dimensions, in elements. */
  lda: "i32",
  ldb: "i32",
  ldc: "i32",
  /** Addresses in the device memory. */
  a: "i32",
  b: "i32",
  c: "i32",
  /** Bytes from matrix to matrix. */
  aBatch: "i32",
  bBatch: "i32",
  cBatch: "i32",
  alpha: "f32",
  beta: "f32",
  /** Rows and columns of C for one chunk, and the number of such parts. */
  chunkRows: "i32",
  chunkColumns: "i32",
  rowChunks: "i32",
  columnChunks: "i32",
  batch: "i32",
  matricesPerChunk: "i32",
} as const;
