import { causalMask, permuted } from "./layout.js";
import { loadPeer, type Peer, type PeerCase } from "./peer.js";
import { type ConvolutionProblem, type Problem, problemOf } from "./problem.js";

interface Tensor {
  readonly shape: readonly number[];
  dataSync(): Float32Array;
  dispose(): void;
}

type Extents = readonly number[];

/** The used part of @tensorflow/tfjs-core. */
interface Tfjs {
  readonly version_core: string;
  setBackend(name: "wasm"): Promise<boolean>;
  ready(): Promise<void>;
  tensor(data: Float32Array, shape: Extents): Tensor;
  tidy<Result>(work: () => Result): Result;
  matMul(a: Tensor, b: Tensor, transposeA?: boolean, transposeB?: boolean): Tensor;
  readonly conv2d: Convolution;
  readonly depthwiseConv2d: Convolution;
  softmax(x: Tensor): Tensor;
  sum(x: Tensor, axes?: Extents): Tensor;
  max(x: Tensor, axes?: Extents): Tensor;
  exp(x: Tensor): Tensor;
  tanh(x: Tensor): Tensor;
  relu(x: Tensor): Tensor;
  erf(x: Tensor): Tensor;
  add(a: Tensor, b: Tensor | number): Tensor;
  mul(a: Tensor, b: Tensor | number): Tensor;
}

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
  readonly order?: (data: Float32Array, shape: Extents) => Float32Array;
}

export async function openTfjs(): Promise<Peer> {
  const tf = await loadPeer<Tfjs>("@tensorflow/tfjs-core");
  await loadPeer("@tensorflow/tfjs-backend-wasm");
  if (!(await tf.setBackend("wasm"))) throw new Error("tfjs has no WebAssembly here");
  await tf.ready();
  return {
    name: "tfjs-backend-wasm",
    version: tf.version_core,
    threads: 1,
    note: "one thread: it does not start threads in Node.js; tensors stay inside",
    open: async (test, inputs) => {
      const tensor = (name: string, shape: Extents) =>
        tf.tensor(inputs[name]!.toArray(test.inputs[name]!), shape);
      const array = (name: string) => inputs[name]!.toArray(test.inputs[name]!);
      const problem = problemOf(test);
      const prepared =
        problem.operation === "conv2d" ? convolution(tf, problem, array) : prepare(tf, problem, tensor);
      return asCase(tf, prepared);
    },
  };
}

function asCase(tf: Tfjs, { how, tensors, compute, order }: Prepared): PeerCase {
  return {
    how,
    call: () => tf.tidy(compute).dispose(),
    read: async () => {
      const result = tf.tidy(compute);
      const data = result.dataSync();
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
  problem: Exclude<Problem, ConvolutionProblem>,
  tensor: (name: string, shape: Extents) => Tensor,
): Prepared {
  switch (problem.operation) {
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
  }
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
