import { type ArgReduceArguments, type ArgReduceProblem, argReduce } from "./arg-reduce/index.js";
import { type AttentionArguments, type AttentionProblem, attention } from "./attention/index.js";
import { type BinaryArguments, type BinaryProblem, binary } from "./binary/index.js";
import { type Conv2dArguments, type Conv2dProblem, conv2d } from "./conv2d/index.js";
import { type CopyArguments, type CopyProblem, copy } from "./copy/index.js";
import { type GatherArguments, type GatherProblem, gather } from "./gather/index.js";
import {
  type BatchedGemmArguments,
  batchedGemm,
  type GemmArguments,
  type GemmProblem,
  gemm,
} from "./gemm/index.js";
import { type NormalizeArguments, type NormalizeProblem, normalize } from "./normalize/index.js";
import type { Operation } from "./operation.js";
import { type RandomArguments, type RandomProblem, random } from "./random/index.js";
import { type ReduceArguments, type ReduceProblem, reduce } from "./reduce/index.js";
import { type SoftmaxArguments, type SoftmaxProblem, softmax } from "./softmax/index.js";
import { type UnaryArguments, type UnaryProblem, unary } from "./unary/index.js";

/** The arguments that callers pass to each operation. */
export interface OperationArguments {
  /** C = activation(alpha op(A) op(B) + beta C + bias); the activation and the bias are optional */
  readonly gemm: GemmArguments;
  /** C[i] = activation(alpha op(A[i]) op(B[i]) + beta C[i] + bias) for each i of a batch */
  readonly batchedGemm: BatchedGemmArguments;
  /** output = activation(input (cross-correlated with) filter + bias), NCHW */
  readonly conv2d: Conv2dArguments;
  /** out = softmax(scale q k^T, with an optional causal mask) v */
  readonly attention: AttentionArguments;
  /** Sum, mean, max, min or product over some axes */
  readonly reduce: ReduceArguments;
  /** The first place of the largest or smallest element along one axis */
  readonly argReduce: ArgReduceArguments;
  /** output[i] = f(input[i]) */
  readonly unary: UnaryArguments;
  /** output[i] = f(a[i], b[i]), with broadcasting */
  readonly binary: BinaryArguments;
  /** softmax or logSoftmax along one axis */
  readonly softmax: SoftmaxArguments;
  /** Random bits, uniform and normal numbers, and truth values */
  readonly random: RandomArguments;
  /** Layer or RMS normalization of rows */
  readonly normalize: NormalizeArguments;
  /** output[i, j, ...] = input[i, j, ...], with strides and element types of their own */
  readonly copy: CopyArguments;
  /** output[o, j, i] = input[o, indices[o, j, i], i]: rows of a table, or elements along one axis */
  readonly gather: GatherArguments;
}

/** The problem that the kernel of each operation receives. */
export interface OperationProblems<Memory> {
  readonly gemm: GemmProblem<Memory>;
  readonly batchedGemm: GemmProblem<Memory>;
  readonly conv2d: Conv2dProblem<Memory>;
  readonly attention: AttentionProblem<Memory>;
  readonly reduce: ReduceProblem<Memory>;
  readonly argReduce: ArgReduceProblem<Memory>;
  readonly unary: UnaryProblem<Memory>;
  readonly binary: BinaryProblem<Memory>;
  readonly softmax: SoftmaxProblem<Memory>;
  readonly random: RandomProblem<Memory>;
  readonly normalize: NormalizeProblem<Memory>;
  readonly copy: CopyProblem<Memory>;
  readonly gather: GatherProblem<Memory>;
}

export type OperationName = keyof OperationArguments;

/** The operations that core defines, by name. Anyone may define more with `defineOperation`. */
export const operations: {
  readonly [Name in OperationName]: Operation<OperationArguments[Name], OperationProblems<unknown>[Name]>;
} = {
  ...{
    gemm,
    batchedGemm,
    conv2d,
    attention,
    reduce,
    unary,
    binary,
    softmax,
    random,
    normalize,
    copy,
    gather,
  },
  argReduce,
};

export const operationNames: readonly OperationName[] = Object.keys(operations) as OperationName[];

// The public names of each operation.
export {
  type ArgReduceArguments,
  type ArgReduceKind,
  type ArgReduceProblem,
  argReduceKinds,
} from "./arg-reduce/index.js";
export type { AttentionArguments, AttentionProblem, CausalMode } from "./attention/index.js";
export {
  type ArithmeticKind,
  arithmeticKinds,
  type BinaryArguments,
  type BinaryInput,
  type BinaryKind,
  type BinaryProblem,
  binaryKinds,
  type ComparisonKind,
  isComparison,
} from "./binary/index.js";
export type { Conv2dArguments, Conv2dProblem } from "./conv2d/index.js";
export { type CopyArguments, type CopyProblem, mostAxes } from "./copy/index.js";
export { type GatherArguments, type GatherProblem, type GatherType, gatherTypes } from "./gather/index.js";
export type { BatchedGemmArguments, GemmArguments, GemmProblem } from "./gemm/index.js";
export {
  type NormalizeArguments,
  type NormalizeKind,
  type NormalizeProblem,
  normalizeKinds,
} from "./normalize/index.js";
export {
  type RandomArguments,
  type RandomKind,
  type RandomProblem,
  type RandomType,
  randomKinds,
  randomTypes,
} from "./random/index.js";
export {
  type Axis,
  identityOf,
  type ReduceArguments,
  type ReduceKind,
  type ReduceProblem,
  reduceIdentity,
  reduceKinds,
} from "./reduce/index.js";
export {
  type SoftmaxArguments,
  type SoftmaxKind,
  type SoftmaxProblem,
  softmaxKinds,
} from "./softmax/index.js";
export { type UnaryArguments, type UnaryKind, type UnaryProblem, unaryKinds } from "./unary/index.js";
