import { type DType, dtypeBytes } from "../dtype.js";
import type { Operand } from "../handles.js";
import { checkNames } from "../names.js";
import type { Region } from "../region.js";
import { type Activation, activations, isActivation } from "./epilogue.js";
import { type Binder, Checks, type Operation } from "./operation.js";

/**
 * C = alpha * op(A) * op(B) + beta * C, with op(A) m x k, op(B) k x n, C m x n; or, with the optional
 * epilogue, for each row i and column j,
 *
 *   C[i, j] = activation(alpha * (op(A) * op(B))[i, j] + beta * C[i, j] + bias[j])
 *
 * beta = 0 never reads C; alpha = 0 reads neither A nor B; k = 0 leaves beta * C, to which the epilogue
 * applies as to any other result. f16: products are accumulated in f32, all else is done in f32 too, and
 * the result is rounded once at the end.
 *
 * C may not overlap A, B or the bias, from its first element to its last: gaps between rows count as
 * overlap.
 */
export interface GemmArguments {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Stored m x k, or k x m with `transA`. */
  readonly a: Operand;
  /** Stored k x n, or n x k with `transB`. */
  readonly b: Operand;
  readonly c: Operand;
  /** Rounded to f32, like beta. Default 1. */
  readonly alpha?: number;
  /** Default 0. */
  readonly beta?: number;
  /** op(A) is the transpose of the stored A. Default false. */
  readonly transA?: boolean;
  /** op(B) is the transpose of the stored B. Default false. */
  readonly transB?: boolean;
  /** Elements from one stored row of A to the next; at least its columns, which is the default. */
  readonly lda?: number;
  readonly ldb?: number;
  readonly ldc?: number;
  /**
   * n elements, one for each column of C; the same for all of a batch. None by default. With this or
   * `activation`, a backend throws `UNSUPPORTED` unless it `supports(operation, dtype, "epilogue")`.
   */
  readonly bias?: Operand;
  /** None by default. */
  readonly activation?: Activation;
  /** Default f32. */
  readonly dtype?: DType;
}

/**
 * The same for i in 0..batch-1, on operands that lie `i * stride` elements further on. A stride of 0
 * for A or B uses that matrix for the whole batch. The C matrices may follow one another or lie side
 * by side within the rows of one larger matrix, but may not overlap.
 */
export interface BatchedGemmArguments extends GemmArguments {
  readonly batch: number;
  /** Elements from one A to the next. Default: tight, rows times lda. */
  readonly strideA?: number;
  readonly strideB?: number;
  readonly strideC?: number;
}

/**
 * One form for gemm (batch 1) and batchedGemm. m, n and batch are at least 1; k may be 0. Where there is only one
 * row or matrix, what would lead to the next is no more than 2^30, or than the row or matrix.
 */
export interface GemmProblem<Memory> {
  readonly dtype: DType;
  readonly m: number;
  readonly n: number;
  /** 0 also stands for alpha = 0: then A and B are not to be read. */
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
   * Either at least the extent of one C, (m - 1) * ldc + n, or the matrices lie side by side:
   * strideC >= n and (batch - 1) * strideC + n <= ldc.
   */
  readonly strideC: number;
  readonly a: Region<Memory>;
  readonly b: Region<Memory>;
  readonly c: Region<Memory>;
  /** n elements, one for each column. */
  readonly bias: Region<Memory> | undefined;
  readonly activation: Activation | undefined;
}

const single = { batch: 1 };

/** What leads to a second row or matrix is cut off here where there is none, so that kernels can hold it. */
const NOWHERE = 2 ** 30;

const gemmNames: readonly (keyof GemmArguments)[] = [
  ...(["m", "n", "k", "a", "b", "c", "alpha", "beta"] as const),
  ...(["transA", "transB", "lda", "ldb", "ldc", "bias", "activation", "dtype"] as const),
];
const batchedNames: readonly (keyof BatchedGemmArguments)[] = [
  ...gemmNames,
  ...(["batch", "strideA", "strideB", "strideC"] as const),
];

function resolveGemm<Memory>(
  operation: "gemm" | "batchedGemm",
  args: GemmArguments,
  batched: Pick<BatchedGemmArguments, "batch" | "strideA" | "strideB" | "strideC">,
  binder: Binder<Memory>,
): GemmProblem<Memory> | undefined {
  // Counted first, which costs next to nothing: see checkNames.
  let names = 0;
  if (batched !== single && batched.batch !== undefined) names++;
  if (args.m !== undefined) names++;
  if (args.n !== undefined) names++;
  if (args.k !== undefined) names++;
  if (args.a !== undefined) names++;
  if (args.b !== undefined) names++;
  if (args.c !== undefined) names++;
  if (args.alpha !== undefined) names++;
  if (args.beta !== undefined) names++;
  if (args.transA !== undefined) names++;
  if (args.transB !== undefined) names++;
  if (args.lda !== undefined) names++;
  if (args.ldb !== undefined) names++;
  if (args.ldc !== undefined) names++;
  if (batched.strideA !== undefined) names++;
  if (batched.strideB !== undefined) names++;
  if (batched.strideC !== undefined) names++;
  if (args.bias !== undefined) names++;
  if (args.activation !== undefined) names++;
  if (args.dtype !== undefined) names++;
  for (const _ in args) names--;
  if (names !== 0)
    checkNames<BatchedGemmArguments>(
      operation,
      args as BatchedGemmArguments,
      batched === single ? gemmNames : batchedNames,
    );
  const checks = new Checks(operation);
  const dtype = checks.dtype(args.dtype);
  const m = checks.count("m", args.m);
  const n = checks.count("n", args.n);
  const k = checks.count("k", args.k);
  const batch = checks.count("batch", batched.batch);
  const alpha = checks.float32("alpha", args.alpha ?? 1);
  const beta = checks.float32("beta", args.beta ?? 0);
  const transA = checks.flag("transA", args.transA ?? false);
  const transB = checks.flag("transB", args.transB ?? false);
  const activation =
    args.activation === undefined ? undefined : checks.oneOf("activation", args.activation, activations);

  const stored = (name: string, rows: number, columns: number, ld = columns, stride?: number) => {
    if (checks.count(`ld${name}`, ld) < columns)
      checks.fail(`ld${name}`, `is ${ld}; allowed: at least the ${columns} columns of the stored matrix`);
    const extent = rows === 0 || columns === 0 ? 0 : (rows - 1) * ld + columns;
    const step = checks.count(`stride${name.toUpperCase()}`, stride ?? rows * ld);
    const total = extent === 0 || batch === 0 ? 0 : (batch - 1) * step + extent;
    if (!Number.isSafeInteger(total)) checks.fail(name, "reaches past 2^53 elements");
    return {
      ld: rows > 1 ? ld : Math.min(ld, Math.max(columns, NOWHERE)),
      extent,
      step: batch > 1 ? step : Math.min(step, Math.max(extent, NOWHERE)),
      total,
    };
  };
  const a = stored("a", transA ? k : m, transA ? m : k, args.lda, batched.strideA);
  const b = stored("b", transB ? n : k, transB ? k : n, args.ldb, batched.strideB);
  const c = stored("c", m, n, args.ldc, batched.strideC);
  const sideBySide = c.step >= n && (batch - 1) * c.step + n <= c.ld;
  if (batch > 1 && c.extent > 0 && c.step < c.extent && !sideBySide)
    checks.fail(
      "strideC",
      `is ${c.step}, which makes the results overlap; allowed: at least ${c.extent}, ` +
        `or from ${n} to ${Math.floor((c.ld - n) / (batch - 1))} for results side by side within rows of ldc`,
    );

  // Where alpha is 0 or there is nothing to sum, A and B are checked as handles but not as regions.
  const reads = alpha !== 0 && m > 0 && n > 0 && k > 0;
  const regionA = binder.region("a", args.a, reads ? a.total : 0, dtype);
  const regionB = binder.region("b", args.b, reads ? b.total : 0, dtype);
  const regionC = binder.region("c", args.c, c.total, dtype);
  const output = { argument: "c", region: regionC };
  checks.disjoint(output, { argument: "a", region: regionA });
  checks.disjoint(output, { argument: "b", region: regionB });
  const bias =
    args.bias === undefined ? undefined : binder.region("bias", args.bias, c.total === 0 ? 0 : n, dtype);
  if (bias !== undefined) checks.disjoint(output, { argument: "bias", region: bias });
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

function asksForEpilogue({ bias, activation }: GemmArguments): boolean {
  return bias !== undefined || isActivation(activation);
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

export const gemm: Operation<"gemm"> = {
  name: "gemm",
  names: gemmNames,
  operands: ["a", "b", "bias", "c"],
  asksForEpilogue,
  resolve: (args, binder) => resolveGemm("gemm", args, single, binder),
  flops,
  bytes,
};

export const batchedGemm: Operation<"batchedGemm"> = {
  name: "batchedGemm",
  names: batchedNames,
  operands: ["a", "b", "bias", "c"],
  asksForEpilogue,
  resolve: (args, binder) => resolveGemm("batchedGemm", args, args, binder),
  flops,
  bytes,
};
