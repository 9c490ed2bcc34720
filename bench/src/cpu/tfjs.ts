import type { Case, Inputs } from "../cases/case.js";
import { causalMask, permuted, transposition } from "./layout.js";
import { type GpuPeerName, loadPeer, type Peer, type PeerCase } from "./peer.js";
import {
  type ConvolutionProblem,
  type PoolProblem,
  type Problem,
  problemOf,
  type ResizeProblem,
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
  add(a: Tensor, b: Tensor | number): Tensor;
  mul(a: Tensor, b: Tensor | number): Tensor;
  transpose(x: Tensor, axes: Extents): Tensor;
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
  readonly compute: () => Tensor;
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
  return asCase(tf, prepare(tf, problemOf(test), tensor, array));
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
    call: () => tf.tidy(compute).dispose(),
    read: async () => {
      const result = tf.tidy(compute);
      const data = await result.data();
      result.dispose();
      return order?.(data, result.shape) ?? data;
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
    case "attention": {
      const { batch, heads, kvHeads, queries, keys, headSize, causal } = problem;
      if (kvHeads !== heads) throw new Error("tfjs has no attention with grouped heads");
      const q = tensor("q", [batch, heads, queries, headSize]);
      const k = tensor("k", [batch, heads, keys, headSize]);
      const v = tensor("v", [batch, heads, keys, headSize]);
      const mask = causal ? tf.tensor(causalMask(queries, keys), [queries, keys]) : undefined;
      const compute = () => {
        const scores = tf.mul(tf.matMul(q, k, false, true), 1 / Math.sqrt(headSize));
        return tf.matMul(tf.softmax(mask === undefined ? scores : tf.add(scores, mask)), v);
      };
      const how = `matMul, softmax, matMul${causal ? ", mask as a tensor" : ""}`;
      return { how, tensors: { q, k, v, ...(mask === undefined ? {} : { mask }) }, compute };
    }
    case "reduce": {
      const { kind, shape, axis } = problem;
      const input = tensor("input", shape);
      const axes = axis === "all" ? undefined : [axis];
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
    case "copy": {
      const { inputShape, axes } = transposition(problem.shape, problem.inputStrides);
      const input = tensor("input", inputShape);
      return { how: "transpose", tensors: { input }, compute: () => tf.transpose(input, axes) };
    }
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
    case "normalize":
    case "quantizedGemm":
    case "rope":
      throw new Error(`tfjs has no ${problem.operation}`);
  }
}

/** Images are NHWC. */
function image(
  tf: Tfjs,
  problem: PoolProblem | ResizeProblem,
  array: (name: string) => Float32Array,
): Prepared {
  const { inputShape } = problem;
  const [images, channels, height, width] = inputShape;
  const input = tf.tensor(permuted(array("input"), inputShape, [0, 2, 3, 1]), [
    images,
    height,
    width,
    channels,
  ]);
  const prepared = (how: string, compute: () => Tensor): Prepared => ({
    ...{ how: `${how}, NHWC`, tensors: { input }, compute },
    order: (data, shape) => permuted(data, shape, [0, 3, 1, 2]),
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
