import { type DType, dtypeBytes } from "../dtype.js";
import type { Region } from "../region.js";
import { type AttentionArguments, type AttentionProblem, attention } from "./attention.js";
import { type BinaryArguments, type BinaryProblem, binary } from "./binary.js";
import { type Conv2dArguments, type Conv2dProblem, conv2d } from "./conv2d.js";
import {
  type BatchedGemmArguments,
  batchedGemm,
  type GemmArguments,
  type GemmProblem,
  gemm,
} from "./gemm.js";
import { type Binder, Checks, type Operation } from "./operation.js";
import { type ReduceArguments, type ReduceProblem, reduce } from "./reduce.js";
import { type UnaryArguments, type UnaryProblem, unary } from "./unary.js";

/** What callers pass to each operation. */
export interface OperationArguments {
  readonly gemm: GemmArguments;
  readonly batchedGemm: BatchedGemmArguments;
  readonly conv2d: Conv2dArguments;
  readonly attention: AttentionArguments;
  readonly reduce: ReduceArguments;
  readonly unary: UnaryArguments;
  readonly binary: BinaryArguments;
}

/** What the kernel of each operation gets. */
export interface OperationProblems<Memory> {
  readonly gemm: GemmProblem<Memory>;
  readonly batchedGemm: GemmProblem<Memory>;
  readonly conv2d: Conv2dProblem<Memory>;
  readonly attention: AttentionProblem<Memory>;
  readonly reduce: ReduceProblem<Memory>;
  readonly unary: UnaryProblem<Memory>;
  readonly binary: BinaryProblem<Memory>;
}

export type OperationName = keyof OperationArguments;

/** All operations by name. */
export const operations: { readonly [Name in OperationName]: Operation<Name> } = {
  gemm,
  batchedGemm,
  conv2d,
  attention,
  reduce,
  unary,
  binary,
};

export const operationNames: readonly OperationName[] = Object.keys(operations) as OperationName[];

/** What a call costs at least. */
export interface Cost {
  /** Floating-point operations: a multiply-add counts 2, any other function of one element 1. */
  readonly flops: number;
  /** Each input element read once, each output element written once. */
  readonly bytes: number;
}

/** The cost of a call with these arguments, which are checked; handles are not looked up. */
export function costOf<Name extends OperationName>(name: Name, args: OperationArguments[Name]): Cost {
  new Checks("costOf").oneOf("name", name, operationNames);
  new Checks(name).object("arguments", args);
  const operation: Operation<Name> = operations[name];
  const problem = operation.resolve(args, unboundRegions);
  return problem === undefined
    ? { flops: 0, bytes: 0 }
    : { flops: operation.flops(problem), bytes: operation.bytes(problem) };
}

const unboundRegions: Binder<unknown> = {
  // A memory of its own for each operand, so that no two of them overlap.
  region: (_argument, _operand, elements, dtype: DType): Region<unknown> => ({
    memory: Symbol("unbound"),
    byteOffset: 0,
    byteLength: elements * dtypeBytes[dtype],
  }),
  fill: () => {},
};
