import { describe } from "../handles.js";
import { type AttentionArguments, type AttentionProblem, attention } from "./attention/index.js";
import { type BinaryArguments, type BinaryProblem, binary } from "./binary/index.js";
import { Checks } from "./checks.js";
import { type Conv2dArguments, type Conv2dProblem, conv2d } from "./conv2d/index.js";
import {
  type BatchedGemmArguments,
  batchedGemm,
  type GemmArguments,
  type GemmProblem,
  gemm,
} from "./gemm/index.js";
import type { Fill, Operation } from "./operation.js";
import type { Binder } from "./reader.js";
import { type ReduceArguments, type ReduceProblem, reduce } from "./reduce/index.js";
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
  /** output[i] = f(input[i]) */
  readonly unary: UnaryArguments;
  /** output[i] = f(a[i], b[i]), with broadcasting */
  readonly binary: BinaryArguments;
}

/** The problem that the kernel of each operation receives. */
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

/** The operations that core defines, by name. Anyone may define more with `defineOperation`. */
export const operations: {
  readonly [Name in OperationName]: Operation<OperationArguments[Name], OperationProblems<unknown>[Name]>;
} = { gemm, batchedGemm, conv2d, attention, reduce, unary, binary };

export const operationNames: readonly OperationName[] = Object.keys(operations) as OperationName[];

/** Whether an operation is one of core's, and not one of somebody else that has the same name. */
export function isOfCore(operation: Operation): boolean {
  return (operations[operation.name as OperationName] as Operation | undefined) === operation;
}

/** Returns an operation, given the name of a core operation or the operation itself. */
export function operationOf(caller: string, given: OperationName | Operation): Operation {
  if (typeof given === "string" && Object.hasOwn(operations, given)) return operations[given];
  if (typeof (given as Operation | undefined)?.resolve === "function") return given as Operation;
  const allowed = `${operationNames.join(", ")}, or what defineOperation returned`;
  return new Checks(caller).fail("operation", `is ${describe(given)}; allowed: ${allowed}`);
}

/** Returns the problem of a call, with regions in the memory of the binder; see `Operation.resolve`. */
export function resolveOperation<Name extends OperationName, Memory>(
  name: Name,
  args: OperationArguments[Name],
  binder: Binder<Memory>,
): OperationProblems<Memory>[Name] | Fill | undefined {
  const operation: Operation<OperationArguments[Name], OperationProblems<unknown>[Name]> = operations[name];
  return operation.resolve(args, binder) as OperationProblems<Memory>[Name] | Fill | undefined;
}
