import { type ArgReduceArguments, type ArgReduceProblem, argReduce } from "./arg-reduce/index.js";
import { type AttentionArguments, type AttentionProblem, attention } from "./attention/index.js";
import {
  type AttentionGradientArguments,
  type AttentionGradientProblem,
  attentionGradient,
} from "./attention-gradient/index.js";
import { type BinaryArguments, type BinaryProblem, binary } from "./binary/index.js";
import { type Conv2dArguments, type Conv2dProblem, conv2d } from "./conv2d/index.js";
import {
  type Conv2dFilterGradientArguments,
  type Conv2dFilterGradientProblem,
  conv2dFilterGradient,
} from "./conv2d-filter-gradient/index.js";
import {
  type Conv2dInputGradientArguments,
  type Conv2dInputGradientProblem,
  conv2dInputGradient,
} from "./conv2d-input-gradient/index.js";
import { type CopyArguments, type CopyProblem, copy } from "./copy/index.js";
import { type GatherArguments, type GatherProblem, gather } from "./gather/index.js";
import {
  type BatchedGemmArguments,
  batchedGemm,
  type GemmArguments,
  type GemmProblem,
  gemm,
} from "./gemm/index.js";
import { type MapArguments, type MapProblem, map } from "./map/index.js";
import { type NormalizeArguments, type NormalizeProblem, normalize } from "./normalize/index.js";
import {
  type NormalizeGradientArguments,
  type NormalizeGradientProblem,
  normalizeGradient,
} from "./normalize-gradient/index.js";
import type { Operation } from "./operation.js";
import { type Pool2dArguments, type Pool2dProblem, pool2d } from "./pool2d/index.js";
import {
  type Pool2dGradientArguments,
  type Pool2dGradientProblem,
  pool2dGradient,
} from "./pool2d-gradient/index.js";
import { type QuantizeArguments, type QuantizeProblem, quantize } from "./quantize/index.js";
import {
  type QuantizedGemmArguments,
  type QuantizedGemmProblem,
  quantizedGemm,
} from "./quantized-gemm/index.js";
import { type RandomArguments, type RandomProblem, random } from "./random/index.js";
import { type ReduceArguments, type ReduceProblem, reduce } from "./reduce/index.js";
import { type Resize2dArguments, type Resize2dProblem, resize2d } from "./resize2d/index.js";
import {
  type Resize2dGradientArguments,
  type Resize2dGradientProblem,
  resize2dGradient,
} from "./resize2d-gradient/index.js";
import { type RopeArguments, type RopeProblem, rope } from "./rope/index.js";
import { type ScanArguments, type ScanProblem, scan } from "./scan/index.js";
import { type ScatterArguments, type ScatterProblem, scatter } from "./scatter/index.js";
import { type SelectArguments, select } from "./select/index.js";
import { type SoftmaxArguments, type SoftmaxProblem, softmax } from "./softmax/index.js";
import {
  type SoftmaxGradientArguments,
  type SoftmaxGradientProblem,
  softmaxGradient,
} from "./softmax-gradient/index.js";
import { type SortArguments, type SortProblem, sort } from "./sort/index.js";
import { type UnaryArguments, type UnaryProblem, unary } from "./unary/index.js";

/** The arguments that callers pass to each operation. */
export interface OperationArguments {
  /** C = activation(alpha op(A) op(B) + beta C + bias); the activation and the bias are optional */
  readonly gemm: GemmArguments;
  /** C[i] = activation(alpha op(A[i]) op(B[i]) + beta C[i] + bias) for each i of a batch */
  readonly batchedGemm: BatchedGemmArguments;
  /** output = activation(input (cross-correlated with) filter + bias), NCHW */
  readonly conv2d: Conv2dArguments;
  /** The gradient of conv2d with respect to its input: the transposed convolution */
  readonly conv2dInputGradient: Conv2dInputGradientArguments;
  /** The gradient of conv2d with respect to its filter */
  readonly conv2dFilterGradient: Conv2dFilterGradientArguments;
  /** out = softmax(scale q k^T, with an optional causal mask) v */
  readonly attention: AttentionArguments;
  /** The gradients of attention by q, k and v */
  readonly attentionGradient: AttentionGradientArguments;
  /** Sum, mean, max, min or product over some axes */
  readonly reduce: ReduceArguments;
  /** The first place of the largest or smallest element along one axis */
  readonly argReduce: ArgReduceArguments;
  /** The largest element, or the mean, of each window of images */
  readonly pool2d: Pool2dArguments;
  /** Images of another height and width: nearest or bilinear */
  readonly resize2d: Resize2dArguments;
  /** The gradient of pool2d by its input */
  readonly pool2dGradient: Pool2dGradientArguments;
  /** The gradient of resize2d by its input */
  readonly resize2dGradient: Resize2dGradientArguments;
  /** C = activation(A dequantize(B)^T + bias), with weights of 4 or 8 bits in blocks with scales */
  readonly quantizedGemm: QuantizedGemmArguments;
  /** Weights of 4 or 8 bits in blocks with scales, for quantizedGemm, from floats */
  readonly quantize: QuantizeArguments;
  /** Sums, products, or the largest or smallest element so far along one axis */
  readonly scan: ScanArguments;
  /** Elements and their places in order along one axis, or the first few of them */
  readonly sort: SortArguments;
  /** output[i] = f(input[i]) */
  readonly unary: UnaryArguments;
  /** output[i] = f(a[i], b[i]), with broadcasting */
  readonly binary: BinaryArguments;
  /** softmax or logSoftmax along one axis */
  readonly softmax: SoftmaxArguments;
  /** The gradient of softmax or logSoftmax, from its output and the gradient of that */
  readonly softmaxGradient: SoftmaxGradientArguments;
  /** Random bits, uniform and normal numbers, and truth values */
  readonly random: RandomArguments;
  /** Layer or RMS normalization of rows */
  readonly normalize: NormalizeArguments;
  /** The gradients of normalize: of its input, its weight and its bias */
  readonly normalizeGradient: NormalizeGradientArguments;
  /** output[i, j, ...] = input[i, j, ...], with strides and element types of their own */
  readonly copy: CopyArguments;
  /** output[o, j, i] = input[o, indices[o, j, i], i]: rows of a table, or elements along one axis */
  readonly gather: GatherArguments;
  /** One elementwise expression over several inputs, outputs and numbers */
  readonly map: MapArguments;
  /** output[i] = condition[i] ? a[i] : b[i], with broadcasting */
  readonly select: SelectArguments;
  /** The inverse of gather: sets, adds, multiplies or compares elements at indices, in order */
  readonly scatter: ScatterArguments;
  /** Rotary position embedding: rotates pairs of elements by tabulated angles */
  readonly rope: RopeArguments;
}

/** The problem that the kernel of each operation receives. */
export interface OperationProblems<Memory> {
  readonly gemm: GemmProblem<Memory>;
  readonly batchedGemm: GemmProblem<Memory>;
  readonly conv2d: Conv2dProblem<Memory>;
  readonly conv2dInputGradient: Conv2dInputGradientProblem<Memory>;
  readonly conv2dFilterGradient: Conv2dFilterGradientProblem<Memory>;
  readonly attention: AttentionProblem<Memory>;
  readonly attentionGradient: AttentionGradientProblem<Memory>;
  readonly reduce: ReduceProblem<Memory>;
  readonly argReduce: ArgReduceProblem<Memory>;
  readonly pool2d: Pool2dProblem<Memory>;
  readonly resize2d: Resize2dProblem<Memory>;
  readonly pool2dGradient: Pool2dGradientProblem<Memory>;
  readonly resize2dGradient: Resize2dGradientProblem<Memory>;
  readonly quantizedGemm: QuantizedGemmProblem<Memory>;
  readonly quantize: QuantizeProblem<Memory>;
  readonly scan: ScanProblem<Memory>;
  readonly sort: SortProblem<Memory>;
  readonly unary: UnaryProblem<Memory>;
  readonly binary: BinaryProblem<Memory>;
  readonly softmax: SoftmaxProblem<Memory>;
  readonly softmaxGradient: SoftmaxGradientProblem<Memory>;
  readonly random: RandomProblem<Memory>;
  readonly normalize: NormalizeProblem<Memory>;
  readonly normalizeGradient: NormalizeGradientProblem<Memory>;
  readonly copy: CopyProblem<Memory>;
  readonly gather: GatherProblem<Memory>;
  readonly map: MapProblem<Memory>;
  readonly select: MapProblem<Memory>;
  readonly scatter: ScatterProblem<Memory>;
  readonly rope: RopeProblem<Memory>;
}

export type OperationName = keyof OperationArguments;

/** What core knows about each of its operations, by name. */
export type Operations = {
  readonly [Name in OperationName]: Operation<OperationArguments[Name], OperationProblems<unknown>[Name]>;
};

/** The operations that core defines, by name. Anyone may define more with `defineOperation`. */
export const operations: Operations = {
  gemm,
  batchedGemm,
  conv2d,
  conv2dInputGradient,
  conv2dFilterGradient,
  attention,
  reduce,
  unary,
  binary,
  softmax,
  softmaxGradient,
  random,
  normalize,
  normalizeGradient,
  copy,
  gather,
  scatter,
  rope,
  argReduce,
  pool2d,
  resize2d,
  pool2dGradient,
  resize2dGradient,
  map,
  select,
  quantizedGemm,
  quantize,
  scan,
  sort,
  attentionGradient,
};

/** A property for each operation, so that the compiler misses one that is left out. */
const named: Readonly<Record<OperationName, true>> = {
  gemm: true,
  batchedGemm: true,
  conv2d: true,
  conv2dInputGradient: true,
  conv2dFilterGradient: true,
  attention: true,
  reduce: true,
  unary: true,
  binary: true,
  softmax: true,
  softmaxGradient: true,
  random: true,
  normalize: true,
  normalizeGradient: true,
  copy: true,
  gather: true,
  scatter: true,
  rope: true,
  argReduce: true,
  pool2d: true,
  resize2d: true,
  pool2dGradient: true,
  resize2dGradient: true,
  map: true,
  select: true,
  quantizedGemm: true,
  quantize: true,
  scan: true,
  sort: true,
  attentionGradient: true,
};

/**
 * The names of the operations that core defines. They are not taken from `operations`, which bundles of programs that have
 * only some operations do not contain.
 */
export const operationNames: readonly OperationName[] = Object.keys(named) as OperationName[];

// The public names of each operation.
export {
  type ArgReduceArguments,
  type ArgReduceKind,
  type ArgReduceProblem,
  argReduceKinds,
} from "./arg-reduce/index.js";
export {
  type AttentionArguments,
  type AttentionMask,
  type AttentionProblem,
  type AttentionSteps,
  type CausalMode,
  contiguousSteps,
  type MaskAxes,
  type MaskType,
  maskTypes,
  type Rows,
  reachOfMask,
} from "./attention/index.js";
export {
  type AttentionGradientArguments,
  type AttentionGradientProblem,
  type AttentionGradientSteps,
  contiguousGradientSteps,
  type GradientRows,
  gradientRows,
} from "./attention-gradient/index.js";
export {
  type ArithmeticKind,
  arithmeticKinds,
  type BinaryArguments,
  type BinaryInput,
  type BinaryKind,
  type BinaryProblem,
  type BitKind,
  binaryKinds,
  binaryResultType,
  bitKinds,
  type ComparisonKind,
  isComparison,
  type LogicalKind,
  logicalKinds,
} from "./binary/index.js";
export {
  type ChannelsLastSteps,
  type Conv2dArguments,
  type Conv2dGeometry,
  type Conv2dProblem,
  channelsLastSteps,
} from "./conv2d/index.js";
export type { GradientStep } from "./conv2d/steps.js";
export {
  type ConvolutionTile,
  type ConvolutionTransform,
  convolutionTransforms,
  isTransformable,
  type TransformedConvolutions,
  transformedConvolutionNames,
} from "./conv2d/transforms.js";
export {
  type Conv2dFilterGradientArguments,
  type Conv2dFilterGradientProblem,
  filterGradientProduct,
  filterGradientSteps,
} from "./conv2d-filter-gradient/index.js";
export {
  type Conv2dInputGradientArguments,
  type Conv2dInputGradientProblem,
  inputGradientSteps,
} from "./conv2d-input-gradient/index.js";
export {
  type CopyArguments,
  type CopyProblem,
  conversion,
  type MoveStep,
  mostAxes,
  moveProblem,
  stridedMove,
  transposition,
} from "./copy/index.js";
export { type GatherArguments, type GatherProblem, type GatherType, gatherTypes } from "./gather/index.js";
export type { BatchedGemmArguments, GemmArguments, GemmProblem } from "./gemm/index.js";
export {
  type MapArguments,
  type MapInput,
  type MapOutput,
  type MapProblem,
  mapLimits,
} from "./map/index.js";
export {
  type MapElementType,
  type MapNode,
  type MapNumberType,
  type MapStep,
  type MapType,
  mapTypes,
} from "./map/nodes.js";
export { operandsOfStep, type Structure, structureOf } from "./map/structure.js";
export {
  type NormalizeArguments,
  type NormalizeKind,
  type NormalizeProblem,
  normalizeKinds,
} from "./normalize/index.js";
export type {
  NormalizeGradientArguments,
  NormalizeGradientProblem,
} from "./normalize-gradient/index.js";
export { type Pool2dArguments, type Pool2dKind, type Pool2dProblem, pool2dKinds } from "./pool2d/index.js";
export type { PoolWindows } from "./pool2d/windows.js";
export type { Pool2dGradientArguments, Pool2dGradientProblem } from "./pool2d-gradient/index.js";
export type { QuantizeArguments, QuantizeProblem } from "./quantize/index.js";
export {
  fromGguf,
  type GgufFormat,
  ggufFormats,
  type QuantizedBits,
  type QuantizedBlock,
  type QuantizedGemmArguments,
  type QuantizedGemmProblem,
  type QuantizedMatrix,
  type QuantizeOptions,
  quantize,
  quantizedBits,
  quantizedBlocks,
} from "./quantized-gemm/index.js";
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
  isTruthReduction,
  type NumberReduceKind,
  numberReduceKinds,
  type ReduceArguments,
  type ReducedType,
  type ReduceKind,
  type ReduceProblem,
  reduceIdentity,
  reduceKinds,
  type TruthReduceKind,
  truthReduceKinds,
} from "./reduce/index.js";
export {
  type Resize2dArguments,
  type Resize2dKind,
  type Resize2dProblem,
  type Resize2dType,
  resize2dKinds,
  resize2dTypes,
} from "./resize2d/index.js";
export type { ResizeCoordinates, ResizedAxis, Resizing } from "./resize2d/resizing.js";
export type { Resize2dGradientArguments, Resize2dGradientProblem } from "./resize2d-gradient/index.js";
export {
  type RopeArguments,
  type RopeKind,
  type RopeProblem,
  type RowStrides,
  ropeKinds,
} from "./rope/index.js";
export { type ScanArguments, type ScanKind, type ScanProblem, scanKinds } from "./scan/index.js";
export {
  type ScatterArguments,
  type ScatterKind,
  type ScatterProblem,
  type ScatterType,
  scatterKinds,
  scatterTypes,
} from "./scatter/index.js";
export { type SelectArguments, type SelectType, selectTypes } from "./select/index.js";
export {
  type SoftmaxArguments,
  type SoftmaxKind,
  type SoftmaxProblem,
  softmaxKinds,
} from "./softmax/index.js";
export type { SoftmaxGradientArguments, SoftmaxGradientProblem } from "./softmax-gradient/index.js";
export type { SortArguments, SortProblem } from "./sort/index.js";
export {
  type FloatUnaryKind,
  floatUnaryKinds,
  isTest,
  type TestKind,
  type UnaryArguments,
  type UnaryKind,
  type UnaryProblem,
  unaryKinds,
  unaryResultType,
} from "./unary/index.js";
