import type { FloatType, GemmProblem } from "@backplane/core";
import { f32x4, i32, v128 } from "../../wasm/index.js";
import { byFloatType, elementsOf } from "../elements/index.js";
import type { EpilogueParameters } from "../epilogue/index.js";
import { type CpuMemory, defineKernel, type Kernel, type Launch } from "../kernel.js";
import { finishRows } from "./finish.js";
import { blocking, fewRows } from "./variants.js";

/**
 * A few rows times a matrix that is stored k x n. Chunks take parts of k, so that each reads whole rows, one
 * after the other. With two workers that takes half to two thirds of the time of chunks of columns if the
 * matrix comes from memory, and nine tenths if it is in a cache. The sums of the parts are added in the order
 * of k, and the number of parts depends on the shape alone.
 */

/**
 * The least number of elements of B, and of rows of it (for each row of A, too), in a part, and the largest
 * number of parts. Beyond some number of them parts are longer, which leaves fewer sums to add: twice as many
 * sums take 2 to 3% of the time.
 */
const partElements = 1 << 17;
const partRows = 128;
const partRowsForRow = 16;
const manyParts = 8;
const longer = 8;
const mostParts = 64;
/** Elements of B from which on it is taken to come from memory for more than a few rows, too: no second-level cache holds it. */
export const largeElements: number = 1 << 21;

/** Into how many parts k is divided. */
export function partsOf({
  m,
  n,
  k,
  batch,
  transB,
}: Pick<GemmProblem<CpuMemory>, "m" | "n" | "k" | "batch" | "transB">): number {
  const sums = m * Math.ceil(n / 16) * 16;
  const elements = k * n;
  if (transB || batch > 1 || sums > blocking.partSums) return 1;
  if (m * elements <= blocking.smallProducts || (m > fewRows && elements < largeElements)) return 1;
  const parts = elements / partElements;
  const most = Math.min(mostParts, k / Math.max(partRows, partRowsForRow * m));
  return Math.max(1, Math.floor(Math.min(most, Math.max(Math.min(parts, manyParts), parts / longer))));
}

const combineTypes = {
  partials: "i32",
  parts: "i32",
  m: "i32",
  n: "i32",
  /** Bytes from row to row of the partial sums. */
  sumsStride: "i32",
  c: "i32",
  stride: "i32",
  alpha: "f32",
  beta: "f32",
  bias: "i32",
  biasStep: "i32",
  activation: "i32",
} as const;

/** Columns that one chunk combines, a multiple of 16; and vectors that it sums side by side. */
const combinedColumns = 512;
const together = 4;

/** C = alpha * (the sum of the partial sums) + beta * C and the epilogue. */
function combineKernel(dtype: FloatType): Kernel<typeof combineTypes> {
  return defineKernel({
    name: `gemm_skinny_combine_${dtype}`,
    parameters: combineTypes,
    scratchBytes: 4 * blocking.skinnySums,
    emit(f, { parameters, chunk, scratch, module }) {
      const { partials, parts, m, n, sumsStride, c, stride, alpha, beta } = parameters;
      const { bias, biasStep, activation } = parameters;
      const elements = elementsOf(f, dtype);
      const first = f.let(i32.mul(chunk, combinedColumns));
      const columns = f.let(i32.minU(i32.sub(n, first), combinedColumns));
      const partStride = f.let(i32.mul(m, sumsStride));
      const row = f.let(i32.add(partials, i32.shl(first, 2)));
      const target = f.let(scratch);
      const vectors = Array.from({ length: together }, (_, v) => v);
      f.forRange(0, m, () => {
        const from = f.let(row);
        const to = f.let(target);
        f.forRange(
          0,
          columns,
          () => {
            const at = f.let(from);
            const sums = vectors.map((v) => f.let(v128.load(at, 16 * v)));
            f.forRange(1, parts, () => {
              f.add(at, partStride);
              for (const [v, sum] of sums.entries()) f.set(sum, f32x4.add(sum, v128.load(at, 16 * v)));
            });
            for (const [v, sum] of sums.entries()) f.store(to, sum, 16 * v);
            f.add(from, 16 * together);
            f.add(to, 16 * together);
          },
          { step: 4 * together },
        );
        f.add(row, sumsStride);
        f.add(target, 4 * combinedColumns);
      });
      f.if(bias, () => f.add(bias, i32.mul(first, biasStep)));
      finishRows(f, module, elements, {
        epilogue: { bias, biasStep, activation },
        sums: scratch,
        sumsStride: f.let(i32.const(4 * combinedColumns)),
        m,
        n: columns,
        c: f.let(i32.add(c, i32.shl(first, elements.shift))),
        stride,
        alpha,
        beta,
      });
    },
  });
}

export const combineKernels: Readonly<Record<FloatType, Kernel<typeof combineTypes>>> =
  byFloatType(combineKernel);

/** The command that follows the product of parts. */
export function planCombine(
  { dtype, m, n }: GemmProblem<CpuMemory>,
  product: Readonly<
    Record<"partials" | "parts" | "chunkColumns" | "c" | "stride" | "alpha" | "beta", number>
  >,
  { bias, biasStep, activation }: EpilogueParameters,
): Launch {
  const { partials, parts, chunkColumns, c, stride, alpha, beta } = product;
  return combineKernels[dtype].launch(
    {
      ...{ partials, parts, m, n, sumsStride: 4 * chunkColumns, c, stride, alpha, beta },
      ...{ bias, biasStep, activation },
    },
    Math.ceil(n / combinedColumns),
    parts * m * n * 0.2,
  );
}
