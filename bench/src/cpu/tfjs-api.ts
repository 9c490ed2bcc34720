export interface Tensor {
  readonly shape: readonly number[];
  data(): Promise<Float32Array | Int32Array>;
  dispose(): void;
}

export type Extents = readonly number[];
export type ElementType = "float32" | "int32" | "bool";

/** The used part of @tensorflow/tfjs-core. */
export interface Tfjs {
  readonly version_core: string;
  setBackend(name: "wasm" | "webgpu"): Promise<boolean>;
  backend(): unknown;
  ready(): Promise<void>;
  tensor(data: Float32Array | Int32Array | Uint8Array, shape: Extents, dtype?: ElementType): Tensor;
  tidy<Result>(work: () => Result): Result;
  dispose(tensors: Tensor | readonly Tensor[]): void;
  matMul(a: Tensor, b: Tensor, transposeA?: boolean, transposeB?: boolean): Tensor;
  readonly conv2d: Convolution;
  readonly depthwiseConv2d: Convolution;
  softmax(x: Tensor): Tensor;
  logSoftmax(x: Tensor, axis: number): Tensor;
  sum(x: Tensor, axes?: Extents): Tensor;
  max(x: Tensor, axes?: Extents): Tensor;
  exp(x: Tensor): Tensor;
  tanh(x: Tensor): Tensor;
  relu(x: Tensor): Tensor;
  erf(x: Tensor): Tensor;
  add(a: Tensor | number, b: Tensor | number): Tensor;
  mul(a: Tensor | number, b: Tensor | number): Tensor;
  greater(a: Tensor, b: Tensor): Tensor;
  sub(a: Tensor | number, b: Tensor | number): Tensor;
  div(a: Tensor | number, b: Tensor | number): Tensor;
  sigmoid(x: Tensor): Tensor;
  abs(x: Tensor): Tensor;
  sqrt(x: Tensor): Tensor;
  logSumExp(x: Tensor, axes: Extents): Tensor;
  transpose(x: Tensor, axes: Extents): Tensor;
  concat(parts: readonly Tensor[], axis: number): Tensor;
  slice(x: Tensor, begin: Extents, size: Extents): Tensor;
  reverse(x: Tensor, axis: number): Tensor;
  /** With zeros. */
  pad(x: Tensor, widths: readonly Extents[]): Tensor;
  randomUniform(shape: Extents, low: number, high: number, type: "float32", seed: number): Tensor;
  randomNormal(shape: Extents, mean: number, deviation: number, type: "float32", seed: number): Tensor;
  /** NHWC, filters as of the convolution whose input it is the gradient of. */
  conv2dTranspose(
    x: Tensor,
    filter: Tensor,
    outputShape: Extents,
    strides: number,
    padding: number,
    rounding: "floor",
  ): Tensor;
  where(condition: Tensor, a: Tensor, b: Tensor): Tensor;
  argMax(x: Tensor, axis: number): Tensor;
  gather(x: Tensor, indices: Tensor): Tensor;
  cumsum(x: Tensor, axis: number): Tensor;
  /** The largest ones first. */
  topk(x: Tensor, count: number): { readonly values: Tensor; readonly indices: Tensor };
  /** Adds updates to zeros. */
  scatterND(indices: Tensor, updates: Tensor, shape: Extents): Tensor;
  readonly maxPool: Pooling;
  readonly avgPool: Pooling;
  readonly image: { readonly resizeBilinear: Resizing; readonly resizeNearestNeighbor: Resizing };
}

/** NHWC */
type Pooling = (
  x: Tensor,
  kernel: Extents,
  strides: Extents,
  padding: readonly Extents[],
  rounding: "floor",
) => Tensor;

/** NHWC */
type Resizing = (x: Tensor, size: Extents, alignCorners: false, halfPixelCenters: true) => Tensor;

/** NHWC, filters as height, width, channels of a group, filters. */
type Convolution = (
  x: Tensor,
  filter: Tensor,
  strides: number,
  padding: number,
  format: "NHWC",
  dilations: 1,
  rounding: "floor",
) => Tensor;

/** A case, ready to be called. */
export interface Prepared {
  readonly how: string;
  readonly tensors: Readonly<Record<string, Tensor>>;
  /** Of several results, the first is that of the case. */
  readonly compute: () => Tensor | readonly Tensor[];
  /** Puts the elements into our order. Default: they are in our order already. */
  readonly order?: (data: ArrayLike<number>, shape: Extents) => Float32Array;
}
