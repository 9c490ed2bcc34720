import type { FloatType, MapNode } from "@backplane/core";
import type { Case } from "../cases/case.js";
import { transposition } from "./layout.js";

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
  /** Of [queries, keys]: added to the scores, or truth values that are 0 where a key is hidden. */
  readonly mask?: "additive" | "boolean";
}

export interface ReduceProblem {
  readonly operation: "reduce";
  readonly kind: "sum" | "max" | "logSumExp";
  readonly shape: readonly number[];
  /** One of both. */
  readonly axis?: number | "all";
  readonly axes?: readonly number[];
}

export function reducedAxes({ shape, axis, axes }: ReduceProblem): readonly number[] {
  if (axes !== undefined) return axes;
  return axis === "all" ? shape.map((_, i) => i) : [axis!];
}

export interface UnaryProblem {
  readonly operation: "unary";
  readonly kind: "exp" | "tanh" | "relu" | "gelu";
  readonly n: number;
}

export interface BinaryProblem {
  readonly operation: "binary";
  readonly kind: "add" | "mul" | "greater";
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

/**
 * Strides of a contiguous input with its axes in another order; of the first columns of wider rows; or of columns from the last
 * to the first. Without strides, another element type.
 */
export interface StridedCopyProblem {
  readonly operation: "copy";
  readonly form?: undefined;
  readonly shape: readonly number[];
  readonly inputStrides?: readonly number[];
  readonly outputDtype?: "f16";
}

/** Two arrays of this shape side by side, or one with a zero on each side. */
export interface JoinedCopyProblem {
  readonly operation: "copy";
  readonly form: "concat" | "pad";
  readonly rows: number;
  readonly columns: number;
}

export type CopyProblem = StridedCopyProblem | JoinedCopyProblem;

/** What a copy is in libraries that have an operator for each. */
export type CopyForm =
  | { readonly form: "concat" | "pad"; readonly rows: number; readonly columns: number }
  | { readonly form: "transpose"; readonly inputShape: readonly number[]; readonly axes: readonly number[] }
  | {
      readonly form: "slice" | "flip";
      /** Of the input: rows, columns. */
      readonly inputShape: readonly [number, number];
      /** Columns of the output. */
      readonly columns: number;
    }
  | { readonly form: "convert"; readonly inputShape: readonly number[] };

export function copyForm(problem: CopyProblem): CopyForm {
  if (problem.form !== undefined) return problem;
  const { shape, inputStrides } = problem;
  if (inputStrides === undefined) return { form: "convert", inputShape: shape };
  const [rows, columns] = shape as readonly [number, number];
  const [width, step] = inputStrides as readonly [number, number];
  if (step < 0) return { form: "flip", inputShape: [rows, columns], columns };
  if (shape.length === 2 && step === 1 && width > columns)
    return { form: "slice", inputShape: [rows, width], columns };
  return { form: "transpose", ...transposition(shape, inputStrides) };
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
  /** In the order of the layout. */
  readonly inputShape: readonly [number, number, number, number];
  /** Default: NCHW. */
  readonly layout?: "NHWC";
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
  /** In the order of the layout. */
  readonly inputShape: readonly [number, number, number, number];
  /** Default: NCHW. */
  readonly layout?: "NHWC";
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

export interface RandomProblem {
  readonly operation: "random";
  readonly kind: "uniform" | "normal";
  readonly count: number;
}

export interface MapProblem {
  readonly operation: "map";
  readonly shape: readonly number[];
  readonly nodes: readonly MapNode[];
  readonly results: readonly number[];
  readonly parameters: readonly number[];
}

export interface SoftmaxGradientProblem {
  readonly operation: "softmaxGradient";
  readonly shape: readonly number[];
  readonly axis: number;
}

export interface NormalizeGradientProblem {
  readonly operation: "normalizeGradient";
  readonly kind: "layer" | "rms";
  readonly rows: number;
  readonly size: number;
}

export interface PoolGradientProblem extends Omit<PoolProblem, "operation"> {
  readonly operation: "pool2dGradient";
}

export interface ConvolutionGradientProblem extends Omit<ConvolutionProblem, "operation"> {
  readonly operation: "conv2dInputGradient" | "conv2dFilterGradient";
}

export interface AttentionGradientProblem {
  readonly operation: "attentionGradient";
  readonly heads: number;
  readonly length: number;
  readonly headSize: number;
  readonly causal: boolean;
}

/** The gradients, in which an input of the function and the gradient of its output are given. */
export type GradientProblem =
  | SoftmaxGradientProblem
  | NormalizeGradientProblem
  | PoolGradientProblem
  | ConvolutionGradientProblem
  | AttentionGradientProblem;

/** How a library computes the nodes of an expression; numbers stay numbers as long as they are alone. */
export interface MapFunctions<Value> {
  input(index: number): Value;
  unary(kind: string, x: Value | number): Value;
  binary(kind: string, a: Value | number, b: Value | number): Value;
}

/** The results of an expression of inputs, numbers and functions of one or two values. */
export function evaluateMap<Value>(problem: MapProblem, functions: MapFunctions<Value>): Value[] {
  const { nodes, results, parameters } = problem;
  const values: (Value | number)[] = [];
  for (const node of nodes) {
    if ("parameter" in node) values.push(parameters[node.parameter]!);
    else if ("constant" in node) values.push(Number(node.constant));
    else if ("unary" in node) values.push(functions.unary(node.unary, values[node.x]!));
    else if ("binary" in node) values.push(functions.binary(node.binary, values[node.a]!, values[node.b]!));
    else if ("input" in node) values.push(functions.input(node.input));
    else throw new Error(`map: a node with ${Object.keys(node).join(", ")} is not compared`);
  }
  return results.map((result) => values.at(result) as Value);
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
  | RopeProblem
  | RandomProblem
  | MapProblem
  | GradientProblem;

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
  "random",
  "map",
  "softmaxGradient",
  "normalizeGradient",
  "pool2dGradient",
  "conv2dInputGradient",
  "conv2dFilterGradient",
  "attentionGradient",
] satisfies Problem["operation"][];

/** Throws for cases that are no single operation of those here: no peer is asked for those. */
export function problemOf(test: Case): Problem & { readonly dtype: FloatType } {
  const { operation } = test.problem;
  if (!operations.includes(operation as string))
    throw new Error(`${test.name} is ${String(operation)}; allowed: ${operations.join(", ")}`);
  return test.problem as unknown as ReturnType<typeof problemOf>;
}

/** The problem for a library with f32 only. Throws for others. */
export function problemInF32(test: Case, library: string): Problem {
  const problem = problemOf(test);
  const { outputDtype = problem.dtype } = test.problem;
  if (problem.dtype === "f16" || outputDtype === "f16") throw new Error(`${library} has no f16 here`);
  return problem;
}

/** Throws for images with channels last, which only TensorFlow.js has. */
export function checkChannelsFirst({ layout }: Pick<PoolProblem, "layout">, library: string): void {
  if (layout !== undefined) throw new Error(`${library} has no channels last`);
}
