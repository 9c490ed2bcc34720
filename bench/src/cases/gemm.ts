import type { FloatType } from "@backplane/core";
import { type Case, type CaseOptions, operationCase, sumOfProducts } from "./case.js";

export interface GemmOptions extends CaseOptions {
  readonly dtype?: FloatType;
  readonly transA?: boolean;
  readonly transB?: boolean;
  /** Elements by which each row is longer than the matrix is wide. */
  readonly padding?: number;
}

/** C = op(A) op(B), m x n, with k products for each element. */
export function gemm(m: number, n: number, k: number, options: GemmOptions = {}): Case {
  const { dtype = "f32", transA = false, transB = false, padding = 0, ...rest } = options;
  const lda = (transA ? m : k) + padding;
  const ldb = (transB ? k : n) + padding;
  const ldc = n + padding;
  const form = transA || transB ? `, ${transA ? "T" : "N"}${transB ? "T" : "N"}` : "";
  const place = (index: number) => Math.floor(index / n) * ldc + (index % n);
  return operationCase({
    name: [
      `${m} x ${n} x ${k}${form}`,
      ...(padding === 0 ? [] : ["padded rows"]),
      ...(rest.matrices === false ? ["no matrix units"] : []),
    ].join(", "),
    operation: "gemm",
    dtype,
    inputs: { a: (transA ? k : m) * lda, b: (transB ? n : k) * ldb },
    output: { argument: "c", elements: m * n, extent: (m - 1) * ldc + n, place },
    args: ({ a, b, c }) => ({ m, n, k, transA, transB, lda, ldb, ldc, dtype, a: a!, b: b!, c: c! }),
    expected({ a, b }, index) {
      const [row, column] = [Math.floor(index / n), index % n];
      let value = 0;
      let magnitude = 0;
      for (let p = 0; p < k; p++) {
        const left = a!.at(transA ? p * lda + row : row * lda + p);
        const product = left * b!.at(transB ? column * ldb + p : p * ldb + column);
        value += product;
        magnitude += Math.abs(product);
      }
      return sumOfProducts(dtype, value, magnitude, k);
    },
    problem: { m, n, k, transA, transB, padding },
    ...rest,
  });
}

/** `batch` products of square matrices that lie one after the other. */
export function batchedGemm(batch: number, size: number, options: CaseOptions = {}): Case {
  const elements = size * size;
  return operationCase({
    name: `${batch} x ${size}^3`,
    operation: "batchedGemm",
    dtype: "f32",
    inputs: { a: batch * elements, b: batch * elements },
    output: { argument: "c", elements: batch * elements },
    args: ({ a, b, c }) => ({ batch, m: size, n: size, k: size, a: a!, b: b!, c: c! }),
    expected({ a, b }, index) {
      const from = Math.floor(index / elements) * elements;
      const [row, column] = [Math.floor((index - from) / size), index % size];
      let value = 0;
      let magnitude = 0;
      for (let p = 0; p < size; p++) {
        const product = a!.at(from + row * size + p) * b!.at(from + p * size + column);
        value += product;
        magnitude += Math.abs(product);
      }
      return sumOfProducts("f32", value, magnitude, size);
    },
    problem: { batch, m: size, n: size, k: size },
    ...options,
  });
}
