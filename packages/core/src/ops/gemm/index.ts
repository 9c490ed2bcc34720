import { dtypeBytes } from "../../dtype.js";
import { activations, epilogueTable } from "../epilogue.js";
import { defineOperation, type Operation } from "../operation.js";
import type { Binder, ReaderOf } from "../reader.js";
import {
  type BatchedGemmArguments,
  batchTable,
  type GemmArguments,
  type GemmProblem,
  gemmTable,
} from "./arguments.js";

export type { BatchedGemmArguments, GemmArguments, GemmProblem } from "./arguments.js";

const table = { ...gemmTable, ...epilogueTable };

/**
 * If there is no second row or matrix, the distance to it is cut to this many elements, so that kernels can hold it.
 */
const NOWHERE = 2 ** 30;

/** The arguments that batchedGemm has and gemm lacks. */
interface Batch {
  readonly batch: number;
  readonly strideA: number | undefined;
  readonly strideB: number | undefined;
  readonly strideC: number | undefined;
}

const single: Batch = { batch: 1, strideA: undefined, strideB: undefined, strideC: undefined };

function resolveProduct(
  args: GemmArguments,
  { batch, strideA, strideB, strideC }: Batch,
  binder: Binder<unknown>,
  read: ReaderOf<typeof table>,
): GemmProblem<unknown> | undefined {
  const dtype = read.elementType("dtype", args.dtype, gemmTable.dtype);
  const m = read.extent("m", args.m);
  const n = read.extent("n", args.n);
  const k = read.extent("k", args.k);
  const alpha = read.factor("alpha", args.alpha, gemmTable.alpha.default);
  const beta = read.factor("beta", args.beta, gemmTable.beta.default);
  const transA = read.flag("transA", args.transA, gemmTable.transA.default);
  const transB = read.flag("transB", args.transB, gemmTable.transB.default);
  const activation = read.choice("activation", args.activation, activations);

  const stored = (name: string, rows: number, columns: number, ld: number, stride = rows * ld) => {
    if (ld < columns)
      read.fail(`ld${name}`, `is ${ld}; allowed: at least the ${columns} columns of the stored matrix`);
    const extent = rows === 0 || columns === 0 ? 0 : (rows - 1) * ld + columns;
    // Its name is made only if it is needed: that costs more than the check.
    if (!Number.isSafeInteger(stride)) read.count(`stride${name.toUpperCase()}`, stride);
    const total = extent === 0 || batch === 0 ? 0 : (batch - 1) * stride + extent;
    if (!Number.isSafeInteger(total)) read.fail(name, "reaches past 2^53 elements");
    return {
      ld: rows > 1 ? ld : Math.min(ld, Math.max(columns, NOWHERE)),
      extent,
      step: batch > 1 ? stride : Math.min(stride, Math.max(extent, NOWHERE)),
      total,
    };
  };
  const a = stored(
    "a",
    transA ? k : m,
    transA ? m : k,
    read.extent("lda", args.lda, transA ? m : k),
    strideA,
  );
  const b = stored(
    "b",
    transB ? n : k,
    transB ? k : n,
    read.extent("ldb", args.ldb, transB ? k : n),
    strideB,
  );
  const c = stored("c", m, n, read.extent("ldc", args.ldc, n), strideC);
  const sideBySide = c.step >= n && (batch - 1) * c.step + n <= c.ld;
  if (batch > 1 && c.extent > 0 && c.step < c.extent && !sideBySide)
    read.fail(
      "strideC",
      `is ${c.step}, which makes the results overlap; allowed: at least ${c.extent}, ` +
        `or from ${n} to ${Math.floor((c.ld - n) / (batch - 1))} for results side by side within rows of ldc`,
    );

  // If alpha is 0 or there is nothing to sum, A and B are checked as handles but not as regions.
  const reads = alpha !== 0 && m > 0 && n > 0 && k > 0;
  const regionA = read.region(binder, "a", args.a, reads ? a.total : 0, dtype);
  const regionB = read.region(binder, "b", args.b, reads ? b.total : 0, dtype);
  const regionC = read.region(binder, "c", args.c, c.total, dtype);
  const output = { argument: "c", region: regionC };
  read.disjoint(output, { argument: "a", region: regionA });
  read.disjoint(output, { argument: "b", region: regionB });
  const bias = read.optionalRegion(binder, "bias", args.bias, c.total === 0 ? 0 : n, dtype);
  if (bias !== undefined) read.disjoint(output, { argument: "bias", region: bias });
  if (c.total === 0) return undefined;
  return {
    // One plain literal: object spreads would cost more than all the checks of a small call.
    dtype,
    m,
    n,
    k: reads ? k : 0,
    alpha,
    beta,
    transA,
    transB,
    lda: a.ld,
    ldb: b.ld,
    ldc: c.ld,
    batch,
    strideA: a.step,
    strideB: b.step,
    strideC: c.step,
    a: regionA,
    b: regionB,
    c: regionC,
    bias,
    activation,
  };
}

function flops({ batch, m, n, k, activation }: GemmProblem<unknown>): number {
  return batch * m * n * (2 * k + (activation === undefined ? 0 : 1));
}

function bytes(problem: GemmProblem<unknown>): number {
  const { batch, m, n, k } = problem;
  const inputs = m * k * (problem.strideA === 0 ? 1 : batch) + k * n * (problem.strideB === 0 ? 1 : batch);
  const outputs = batch * m * n * (problem.beta === 0 ? 1 : 2);
  return (inputs + outputs) * dtypeBytes[problem.dtype] + (problem.bias?.byteLength ?? 0);
}

export const gemm: Operation<GemmArguments, GemmProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "gemm",
  arguments: table,
  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },
  resolve: (args, binder, read) => resolveProduct(args, single, binder, read),
  flops,
  bytes,
});

export const batchedGemm: Operation<
  BatchedGemmArguments,
  GemmProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "batchedGemm",
  arguments: { ...batchTable, ...table },
  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },
  resolve(args, binder, read) {
    const batch: Batch = {
      batch: read.extent("batch", args.batch),
      strideA: read.optionalExtent("strideA", args.strideA),
      strideB: read.optionalExtent("strideB", args.strideB),
      strideC: read.optionalExtent("strideC", args.strideC),
    };
    return resolveProduct(args, batch, binder, read);
  },
  flops,
  bytes,
});
