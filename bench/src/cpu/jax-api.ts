/** Reference counted: being passed to a function uses it up, `ref` is one more of it. */
export interface JaxArray {
  readonly ref: JaxArray;
  readonly shape: readonly number[];
  blockUntilReady(): Promise<JaxArray>;
  data(): Promise<Float32Array | Int32Array>;
  dispose(): void;
  /** An empty list: all along an axis. A pair: from, and to before. */
  slice(...ranges: readonly (readonly [] | readonly [from: number, to: number])[]): JaxArray;
}

export type Extents = readonly number[];
export type ElementType = "float32" | "int32" | "bool";
/** Of several results, the first is that of the case. */
export type Compute = (...inputs: JaxArray[]) => JaxArray | readonly JaxArray[];

interface PullBack {
  (gradient: JaxArray): readonly JaxArray[];
  /** Gives back what the function has left for it. */
  dispose(): void;
}

export type JaxDevice = "wasm" | "webgpu";

type Binary = (a: JaxArray | number, b: JaxArray | number) => JaxArray;

/** The used part of @jax-js/jax. */
export interface Jax {
  init(device: JaxDevice): Promise<readonly string[]>;
  defaultDevice(device: JaxDevice): string;
  blockUntilReady(arrays: readonly JaxArray[]): Promise<unknown>;
  jit(compute: Compute): Compute;
  /** The result at the inputs, and how gradients of it become gradients of each input. */
  vjp(
    compute: (...inputs: JaxArray[]) => JaxArray,
    inputs: readonly JaxArray[],
  ): readonly [JaxArray, PullBack];
  readonly random: {
    key(seed: number): JaxArray;
    uniform(key: JaxArray, shape: Extents): JaxArray;
    normal(key: JaxArray, shape: Extents): JaxArray;
  };
  readonly numpy: {
    array(
      data: Float32Array | Int32Array,
      options: { readonly shape: Extents; readonly dtype: ElementType },
    ): JaxArray;
    matmul(a: JaxArray, b: JaxArray): JaxArray;
    matrixTranspose(x: JaxArray): JaxArray;
    sum(x: JaxArray, axes: Extents): JaxArray;
    max(x: JaxArray, axes?: Extents): JaxArray;
    exp(x: JaxArray): JaxArray;
    tanh(x: JaxArray): JaxArray;
    readonly add: Binary;
    readonly subtract: Binary;
    readonly multiply: Binary;
    readonly divide: Binary;
    sqrt(x: JaxArray): JaxArray;
    absolute(x: JaxArray): JaxArray;
    concatenate(parts: readonly JaxArray[], axis: number): JaxArray;
    flip(x: JaxArray, axis: number): JaxArray;
    zeros(shape: Extents): JaxArray;
    mean(x: JaxArray, axis?: number, options?: { readonly keepdims: boolean }): JaxArray;
    transpose(x: JaxArray, axes: Extents): JaxArray;
    where(condition: JaxArray, a: JaxArray, b: JaxArray | number): JaxArray;
    argmax(x: JaxArray, axis: number): JaxArray;
    take(x: JaxArray, indices: JaxArray, axis: number): JaxArray;
    takeAlongAxis(x: JaxArray, indices: JaxArray, axis: number): JaxArray;
    cumsum(x: JaxArray, axis: number): JaxArray;
    ones(shape: Extents): JaxArray;
    greater(x: JaxArray, y: JaxArray | number): JaxArray;
    /** With zeros. */
    pad(x: JaxArray, widths: readonly Extents[]): JaxArray;
  };
  readonly nn: {
    relu(x: JaxArray): JaxArray;
    sigmoid(x: JaxArray): JaxArray;
    logsumexp(x: JaxArray, axes: Extents): JaxArray;
    gelu(x: JaxArray, options: { readonly approximate: boolean }): JaxArray;
    softmax(x: JaxArray, axis: number): JaxArray;
    logSoftmax(x: JaxArray, axis: number): JaxArray;
    /** To mean 0 and variance 1. */
    standardize(x: JaxArray, axis: number, options: { readonly epsilon: number }): JaxArray;
    /** Batch, length, heads, size of a head. */
    dotProductAttention(
      q: JaxArray,
      k: JaxArray,
      v: JaxArray,
      options: {
        readonly isCausal: boolean;
        /** Is added to the scores. */
        readonly bias?: JaxArray;
        /** Truth values: false hides. */
        readonly mask?: JaxArray;
      },
    ): JaxArray;
  };
  readonly lax: {
    convGeneralDilated(
      x: JaxArray,
      filter: JaxArray,
      strides: Extents,
      padding: readonly Extents[],
      options: { readonly featureGroupCount: number },
    ): JaxArray;
    /** Of windows along the last axes. */
    reduceWindow(
      x: JaxArray,
      compute: (window: JaxArray) => JaxArray,
      window: Extents,
      strides: Extents,
    ): JaxArray;
    /** Values and places, the largest ones first. */
    topK(x: JaxArray, count: number): readonly [JaxArray, JaxArray];
  };
}
