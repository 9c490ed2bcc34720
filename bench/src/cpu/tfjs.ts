import type { Case, Inputs } from "../cases/case.js";
import { causalMask, permuted } from "./layout.js";
import { type GpuPeerName, loadPeer, type Peer, type PeerCase } from "./peer.js";
import {
  type AttentionProblem,
  type ConvolutionGradientProblem,
  type ConvolutionProblem,
  copyForm,
  evaluateMap,
  type PoolProblem,
  type Problem,
  problemInF32,
  type ResizeProblem,
  reducedAxes,
} from "./problem.js";

interface Tensor {
  readonly shape: readonly number[];
  data(): Promise<Float32Array | Int32Array>;
  dispose(): void;
}

type Extents = readonly number[];
type ElementType = "float32" | "int32" | "bool";

/** The used part of @tensorflow/tfjs-core. */
interface Tfjs {
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

interface Prepared {
  readonly how: string;
  readonly tensors: Readonly<Record<string, Tensor>>;
  /** Of several results, the first is that of the case. */
  readonly compute: () => Tensor | readonly Tensor[];
  /** Puts the elements into our order. Default: they are in our order already. */
  readonly order?: (data: ArrayLike<number>, shape: Extents) => Float32Array;
}

export async function openTfjs(): Promise<Peer> {
  const tf = await loadTfjs("wasm");
  return {
    name: "tfjs-backend-wasm",
    version: tf.version_core,
    threads: 1,
    note: "one thread: it does not start threads in Node.js; tensors stay inside",
    open: async (test, inputs) => opened(tf, test, inputs),
  };
}

/** The used part of the backend webgpu. */
interface TfjsGpu {
  /** Null: nothing was enqueued since the last submit. */
  readonly commandEncoder: object | null;
  endComputePassEncoder(): void;
  submitQueue(): void;
  readonly queue: { onSubmittedWorkDone(): Promise<void> };
}

/** On WebGPU, whose globals must be there. */
export async function openTfjsOnGpu(): Promise<Peer<GpuPeerName>> {
  const tf = await loadTfjs("webgpu");
  const backend = tf.backend() as TfjsGpu;
  const finish = async () => {
    if (backend.commandEncoder !== null) {
      backend.endComputePassEncoder();
      backend.submitQueue();
    }
    await backend.queue.onSubmittedWorkDone();
  };
  return {
    name: "tfjs-backend-webgpu",
    version: tf.version_core,
    threads: 1,
    note: "tensors stay inside",
    open: async (test, inputs) => ({ ...opened(tf, test, inputs), finish }),
  };
}

async function loadTfjs(backend: "wasm" | "webgpu"): Promise<Tfjs> {
  const tf = await loadPeer<Tfjs>("@tensorflow/tfjs-core");
  await loadPeer(`@tensorflow/tfjs-backend-${backend}`);
  if (!(await tf.setBackend(backend))) throw new Error(`tfjs has no ${backend} here`);
  await tf.ready();
  return tf;
}

function opened(tf: Tfjs, test: Case, inputs: Inputs): PeerCase {
  const array = (name: string) => inputs[name]!.toArray(test.inputs[name]!);
  const tensor = (name: string, shape: Extents, type: ElementType = "float32") =>
    tf.tensor(elements[type](array(name)), shape, type);
  return asCase(tf, prepare(tf, problemInF32(test, "tfjs"), tensor, array));
}

/** Numbers in the array that a tensor of each type is made from. */
const elements = {
  float32: (numbers: Float32Array) => numbers,
  int32: (numbers: Float32Array) => Int32Array.from(numbers),
  bool: (numbers: Float32Array) => Uint8Array.from(numbers),
};

function asCase(tf: Tfjs, { how, tensors, compute, order }: Prepared): PeerCase {
  return {
    how,
    call: () => tf.dispose(tf.tidy(compute)),
    read: async () => {
      const results = tf.tidy(compute);
      const [result] = [results].flat() as readonly Tensor[];
      const data = await result!.data();
      tf.dispose(results);
      return order?.(data, result!.shape) ?? data;
    },
    close() {
      for (const tensor of Object.values(tensors)) tensor.dispose();
    },
  };
}

function prepare(
  tf: Tfjs,
  problem: Problem,
  tensor: (name: string, shape: Extents, type?: ElementType) => Tensor,
  array: (name: string) => Float32Array,
): Prepared {
  switch (problem.operation) {
    case "conv2d":
      return convolution(tf, problem, array);
    case "pool2d":
    case "resize2d":
      return image(tf, problem, array);
    case "gemm": {
      const { m, n, k, transA, transB } = problem;
      const a = tensor("a", transA ? [k, m] : [m, k]);
      const b = tensor("b", transB ? [n, k] : [k, n]);
      return { how: "matMul", tensors: { a, b }, compute: () => tf.matMul(a, b, transA, transB) };
    }
    case "batchedGemm": {
      const { batch, m, n, k } = problem;
      const a = tensor("a", [batch, m, k]);
      const b = tensor("b", [batch, k, n]);
      return { how: "matMul", tensors: { a, b }, compute: () => tf.matMul(a, b) };
    }
    case "attention":
      return attention(tf, problem, tensor);
    case "reduce": {
      const { kind, shape } = problem;
      const input = tensor("input", shape);
      const axes = reducedAxes(problem);
      return { how: kind, tensors: { input }, compute: () => tf[kind](input, axes) };
    }
    case "unary": {
      const { kind, n } = problem;
      const input = tensor("input", [n]);
      if (kind !== "gelu") return { how: kind, tensors: { input }, compute: () => tf[kind](input) };
      const compute = () => tf.mul(tf.mul(input, 0.5), tf.add(tf.erf(tf.mul(input, Math.SQRT1_2)), 1));
      return { how: "written out with erf", tensors: { input }, compute };
    }
    case "binary": {
      const { kind, rows, columns, broadcast } = problem;
      const a = tensor("a", [rows, columns]);
      const b = tensor("b", broadcast ? [columns] : [rows, columns]);
      return { how: kind, tensors: { a, b }, compute: () => tf[kind](a, b) };
    }
    case "softmax": {
      const { kind, shape, axis } = problem;
      const input = tensor("input", shape);
      // The other one takes the last axis, which is the only one that it has.
      const compute = kind === "softmax" ? () => tf.softmax(input) : () => tf.logSoftmax(input, axis);
      return { how: kind, tensors: { input }, compute };
    }
    case "copy":
      return copy(tf, copyForm(problem), tensor);
    case "select": {
      const { n } = problem;
      const [condition, a, b] = [tensor("condition", [n], "bool"), tensor("a", [n]), tensor("b", [n])];
      return { how: "where", tensors: { condition, a, b }, compute: () => tf.where(condition, a, b) };
    }
    case "argReduce": {
      const input = tensor("input", problem.shape);
      return { how: "argMax", tensors: { input }, compute: () => tf.argMax(input, problem.axis) };
    }
    case "gather": {
      const { shape, axis, indexShape } = problem;
      if (axis !== 0) throw new Error("tfjs has no gather with an index for each element");
      const input = tensor("input", shape);
      const indices = tensor("indices", [indexShape[0]], "int32");
      return { how: "gather", tensors: { input, indices }, compute: () => tf.gather(input, indices) };
    }
    case "scan": {
      const input = tensor("input", problem.shape);
      return { how: "cumsum", tensors: { input }, compute: () => tf.cumsum(input, problem.axis) };
    }
    case "sort": {
      const input = tensor("input", problem.shape);
      return { how: "topk", tensors: { input }, compute: () => tf.topk(input, problem.count).values };
    }
    case "scatter": {
      const { shape, indexShape } = problem;
      const output = tensor("output", shape);
      const indices = tensor("indices", indexShape, "int32");
      const updates = tensor("updates", [indexShape[0], shape[1]]);
      const compute = () => tf.add(tf.scatterND(indices, updates, shape), output);
      return { how: "scatterND, add", tensors: { output, indices, updates }, compute };
    }
    case "random": {
      const { kind, count } = problem;
      const compute = {
        uniform: () => tf.randomUniform([count], 0, 1, "float32", 1),
        normal: () => tf.randomNormal([count], 0, 1, "float32", 1),
      }[kind];
      return { how: `${kind} on the host`, tensors: {}, compute };
    }
    case "map": {
      const inputs = Object.fromEntries(
        problem.nodes.flatMap((node) =>
          "input" in node ? [[`inputs[${node.input}]`, tensor(`inputs[${node.input}]`, problem.shape)]] : [],
        ),
      );
      const compute = () =>
        evaluateMap<Tensor>(problem, {
          input: (index) => inputs[`inputs[${index}]`]!,
          unary: (kind, x) => tf[kind as "abs" | "relu" | "sigmoid" | "sqrt"](x as Tensor),
          binary: (kind, a, b) => tf[kind as "add" | "div" | "mul" | "sub"](a, b),
        });
      return { how: "one by one", tensors: inputs, compute };
    }
    case "conv2dInputGradient":
      return transposedConvolution(tf, problem, array);
    case "normalize":
    case "quantizedGemm":
    case "rope":
      throw new Error(`tfjs has no ${problem.operation}`);
    case "softmaxGradient":
    case "normalizeGradient":
    case "pool2dGradient":
    case "conv2dFilterGradient":
    case "attentionGradient":
      throw new Error("tfjs is not asked for gradients that it has no function for");
  }
}

function attention(
  tf: Tfjs,
  { batch, heads, kvHeads, queries, keys, headSize, causal, mask: kind }: AttentionProblem,
  tensor: (name: string, shape: Extents, type?: ElementType) => Tensor,
): Prepared {
  if (kvHeads !== heads) throw new Error("tfjs has no attention with grouped heads");
  const q = tensor("q", [batch, heads, queries, headSize]);
  const k = tensor("k", [batch, heads, keys, headSize]);
  const v = tensor("v", [batch, heads, keys, headSize]);
  const masks = {
    additive: () => tensor("mask", [queries, keys]),
    boolean: () => tensor("mask", [queries, keys], "bool"),
  };
  const ofCausal = () => tf.tensor(causalMask(queries, keys), [queries, keys]);
  const mask = kind === undefined ? (causal ? ofCausal() : undefined) : masks[kind]();
  const hidden = kind === "boolean" ? tf.tensor(Float32Array.of(-1e30), []) : undefined;
  const masked = (scores: Tensor) => {
    if (mask === undefined) return scores;
    return hidden === undefined ? tf.add(scores, mask) : tf.where(mask, scores, hidden);
  };
  const compute = () => {
    const scores = tf.mul(tf.matMul(q, k, false, true), 1 / Math.sqrt(headSize));
    return tf.matMul(tf.softmax(masked(scores)), v);
  };
  const tensors = { q, k, v, ...(mask && { mask }), ...(hidden && { hidden }) };
  return {
    how: `matMul, softmax, matMul${mask === undefined ? "" : ", mask as a tensor"}`,
    tensors,
    compute,
  };
}

function copy(
  tf: Tfjs,
  form: ReturnType<typeof copyForm>,
  tensor: (name: string, shape: Extents) => Tensor,
): Prepared {
  switch (form.form) {
    case "transpose": {
      const input = tensor("input", form.inputShape);
      return { how: "transpose", tensors: { input }, compute: () => tf.transpose(input, form.axes) };
    }
    case "slice": {
      const input = tensor("input", form.inputShape);
      const size = [form.inputShape[0], form.columns];
      return { how: "slice", tensors: { input }, compute: () => tf.slice(input, [0, 0], size) };
    }
    case "flip": {
      const input = tensor("input", form.inputShape);
      return { how: "reverse", tensors: { input }, compute: () => tf.reverse(input, 1) };
    }
    case "concat": {
      const shape = [form.rows, form.columns];
      const [a, b] = [tensor("a", shape), tensor("b", shape)];
      return { how: "concat", tensors: { a, b }, compute: () => tf.concat([a, b], 1) };
    }
    case "pad": {
      const input = tensor("input", [form.rows, form.columns]);
      const widths = [
        [1, 1],
        [1, 1],
      ];
      return { how: "pad", tensors: { input }, compute: () => tf.pad(input, widths) };
    }
    case "convert":
      throw new Error("tfjs has no f16 here");
  }
}

/** What one library calls a transposed convolution. Images are NHWC. */
function transposedConvolution(
  tf: Tfjs,
  { inputShape, filterShape, stride, padding, groups }: ConvolutionGradientProblem,
  array: (name: string) => Float32Array,
): Prepared {
  if (groups > 1) throw new Error("tfjs has no transposed convolution in groups");
  const [images, channels, height, width] = inputShape;
  const [filters, , kernelHeight, kernelWidth] = filterShape;
  const extent = (size: number, kernel: number) => Math.floor((size + 2 * padding - kernel) / stride) + 1;
  const shape = [images, filters, extent(height, kernelHeight), extent(width, kernelWidth)];
  const last = [0, 2, 3, 1];
  const outputGradient = tf.tensor(
    permuted(array("outputGradient"), shape, last),
    last.map((axis) => shape[axis]!),
  );
  const places = [2, 3, 1, 0];
  const filter = tf.tensor(
    permuted(array("filter"), filterShape, places),
    places.map((axis) => filterShape[axis]!),
  );
  const output = [images, height, width, channels];
  return {
    how: "conv2dTranspose, NHWC",
    tensors: { outputGradient, filter },
    compute: () => tf.conv2dTranspose(outputGradient, filter, output, stride, padding, "floor"),
    order: (data, of) => permuted(data, of, [0, 3, 1, 2]),
  };
}

/** Images are NHWC. */
function image(
  tf: Tfjs,
  problem: PoolProblem | ResizeProblem,
  array: (name: string) => Float32Array,
): Prepared {
  const { inputShape, layout } = problem;
  const data = array("input");
  const last = [0, 2, 3, 1];
  const input =
    layout === "NHWC"
      ? tf.tensor(data, inputShape)
      : tf.tensor(
          permuted(data, inputShape, last),
          last.map((axis) => inputShape[axis]!),
        );
  const prepared = (how: string, compute: () => Tensor): Prepared => ({
    ...{ how: `${how}, NHWC`, tensors: { input }, compute },
    ...(layout === "NHWC" ? {} : { order: (data, shape) => permuted(data, shape, [0, 3, 1, 2]) }),
  });
  if (problem.operation === "resize2d") {
    const { kind, outputHeight, outputWidth } = problem;
    const how = kind === "bilinear" ? "resizeBilinear" : "resizeNearestNeighbor";
    return prepared(how, () => tf.image[how](input, [outputHeight, outputWidth], false, true));
  }
  const { kind, kernel, stride = kernel, padding: [top, left, bottom, right] = [0, 0, 0, 0] } = problem;
  const how = kind === "max" ? "maxPool" : "avgPool";
  const sides = [
    [0, 0],
    [top, bottom],
    [left, right],
    [0, 0],
  ];
  return prepared(how, () => tf[how](input, kernel, stride, sides, "floor"));
}

/** Images are NHWC, as tfjs has them on the CPU, with filters to match. */
function convolution(
  tf: Tfjs,
  { inputShape, filterShape, stride, padding, groups }: ConvolutionProblem,
  array: (name: string) => Float32Array,
): Prepared {
  const depthwise = groups > 1;
  if (depthwise && (groups !== inputShape[1] || filterShape[0] !== groups))
    throw new Error("tfjs has no convolution in groups of several channels");
  const tensor = (data: Float32Array, shape: Extents, axes: Extents) =>
    tf.tensor(
      permuted(data, shape, axes),
      axes.map((axis) => shape[axis]!),
    );
  const input = tensor(array("input"), inputShape, [0, 2, 3, 1]);
  // A depthwise filter has its channels in the place of a group's channels, and one filter for each.
  const filter = tensor(array("filter"), filterShape, depthwise ? [2, 3, 0, 1] : [2, 3, 1, 0]);
  const operation = depthwise ? "depthwiseConv2d" : "conv2d";
  return {
    how: `${operation}, NHWC`,
    tensors: { input, filter },
    compute: () => tf[operation](input, filter, stride, padding, "NHWC", 1, "floor"),
    order: (data, shape) => permuted(data, shape, [0, 3, 1, 2]),
  };
}
