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

export interface SoftmaxProblem {
  readonly operation: "softmax";
  readonly kind: "softmax" | "logSoftmax";
  readonly shape: readonly number[];
  readonly axis: number;
}

export interface NormalizeProblem {
  readonly operation: "normalize";
  readonly kind: "layer" | "rms";
  readonly rows: number;
  readonly size: number;
}

/** Axes in another order: the strides are those of a contiguous input. */
export interface CopyProblem {
  readonly operation: "copy";
  readonly shape: readonly number[];
  readonly inputStrides: readonly number[];
}

export interface SelectProblem {
  readonly operation: "select";
  readonly n: number;
}

export interface ArgReduceProblem {
  readonly operation: "argReduce";
  readonly kind: "argMax";
  readonly shape: readonly number[];
  readonly axis: number;
}

/** Rows of a table (axis 0, one index for each), or elements of each row (axis 1). */
export interface GatherProblem {
  readonly operation: "gather";
  readonly shape: readonly [rows: number, columns: number];
  readonly axis: 0 | 1;
  readonly indexShape: readonly [number, number];
}

export interface ScanProblem {
  readonly operation: "scan";
  readonly kind: "sum";
  readonly shape: readonly number[];
  readonly axis: number;
}

/** The largest elements of each row, the first ones of its order, with their places. */
export interface SortProblem {
  readonly operation: "sort";
  readonly shape: readonly [rows: number, columns: number];
  readonly count: number;
  readonly descending: true;
}

/** Adds rows to those of a table. */
export interface ScatterProblem {
  readonly operation: "scatter";
  readonly kind: "add";
  readonly shape: readonly [rows: number, columns: number];
  readonly indexShape: readonly [count: number, one: 1];
}

export interface PoolProblem {
  readonly operation: "pool2d";
  readonly kind: "max" | "mean";
  /** NCHW. */
  readonly inputShape: readonly [number, number, number, number];
  readonly kernel: readonly [number, number];
  /** Default: the kernel. */
  readonly stride?: readonly [number, number];
  /** Top, left, bottom, right. Default: none. */
  readonly padding?: readonly [number, number, number, number];
}

/** Places by the middles of pixels. */
export interface ResizeProblem {
  readonly operation: "resize2d";
  readonly kind: "bilinear" | "nearest";
  /** NCHW. */
  readonly inputShape: readonly [number, number, number, number];
  readonly outputHeight: number;
  readonly outputWidth: number;
}

/** Weights of 4 bits, in blocks of 32. */
export interface QuantizedGemmProblem {
  readonly operation: "quantizedGemm";
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

export interface RopeProblem {
  readonly operation: "rope";
  readonly kind: "neighbours" | "halves";
  readonly batch: 1;
  readonly heads: number;
  readonly rows: number;
  readonly size: number;
  /** Positions in the tables: as many as rows. */
  readonly length: number;
}

/** The plain data of a case, as the families of cases write it. */
export type Problem =
  | GemmProblem
  | BatchedGemmProblem
  | ConvolutionProblem
  | AttentionProblem
  | ReduceProblem
  | UnaryProblem
  | BinaryProblem
  | SoftmaxProblem
  | NormalizeProblem
  | CopyProblem
  | SelectProblem
  | ArgReduceProblem
  | GatherProblem
  | ScanProblem
  | SortProblem
  | ScatterProblem
  | PoolProblem
  | ResizeProblem
  | QuantizedGemmProblem
  | RopeProblem;

const operations: readonly string[] = [
  "gemm",
  "batchedGemm",
  "conv2d",
  "attention",
  "reduce",
  "unary",
  "binary",
  "softmax",
  "normalize",
  "copy",
  "select",
  "argReduce",
  "gather",
  "scan",
  "sort",
  "scatter",
  "pool2d",
  "resize2d",
  "quantizedGemm",
  "rope",
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
