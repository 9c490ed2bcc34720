import type { Case } from "../cases/case.js";

export interface GemmProblem {
  readonly operation: "gemm";
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly transA: boolean;
  readonly transB: boolean;
}

export interface BatchedGemmProblem {
  readonly operation: "batchedGemm";
  readonly batch: number;
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

export interface ConvolutionProblem {
  readonly operation: "conv2d";
  /** NCHW. */
  readonly inputShape: readonly [number, number, number, number];
  /** Filters, channels of a group, height, width. */
  readonly filterShape: readonly [number, number, number, number];
  readonly stride: number;
  readonly padding: number;
  readonly groups: number;
}

export interface AttentionProblem {
  readonly operation: "attention";
  readonly batch: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly queries: number;
  readonly keys: number;
  readonly headSize: number;
  readonly causal: boolean;
}

export interface ReduceProblem {
  readonly operation: "reduce";
  readonly kind: "sum" | "max";
  readonly shape: readonly number[];
  readonly axis: number | "all";
}

export interface UnaryProblem {
  readonly operation: "unary";
  readonly kind: "exp" | "tanh" | "relu" | "gelu";
  readonly n: number;
}

export interface BinaryProblem {
  readonly operation: "binary";
  readonly kind: "add" | "mul";
  readonly rows: number;
  readonly columns: number;
  readonly broadcast: boolean;
}

/** The plain data of a case, as the families of cases write it. */
export type Problem =
  | GemmProblem
  | BatchedGemmProblem
  | ConvolutionProblem
  | AttentionProblem
  | ReduceProblem
  | UnaryProblem
  | BinaryProblem;

const operations: readonly string[] = [
  "gemm",
  "batchedGemm",
  "conv2d",
  "attention",
  "reduce",
  "unary",
  "binary",
] satisfies Problem["operation"][];

/** Throws for cases that are no single operation in f32: no peer is asked for those. */
export function problemOf(test: Case): Problem {
  const { operation, dtype } = test.problem;
  if (dtype !== "f32" || !operations.includes(operation as string))
    throw new Error(
      `${test.name} is ${String(operation)} in ${String(dtype)}; allowed: ${operations.join(", ")} in f32`,
    );
  return test.problem as unknown as Problem;
}
