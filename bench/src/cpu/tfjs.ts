import type { Case, Inputs } from "../cases/case.js";
import { causalMask } from "./layout.js";
import { type GpuPeerName, loadPeer, type Peer, type PeerCase } from "./peer.js";
import {
  type AttentionProblem,
  copyForm,
  evaluateMap,
  type Problem,
  problemInF32,
  reducedAxes,
} from "./problem.js";
import type { ElementType, Extents, Prepared, Tensor, Tfjs } from "./tfjs-api.js";
import { convolution, image, transposedConvolution } from "./tfjs-images.js";

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
