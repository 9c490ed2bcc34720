import type { Case, Inputs } from "../cases/case.js";
import { installedVersion } from "./installed.js";
import { permuted, transposition } from "./layout.js";
import { type GpuPeerName, loadPeer, type Peer, type PeerCase } from "./peer.js";
import { type NormalizeProblem, type PoolProblem, type Problem, problemOf } from "./problem.js";
import { WebWorker } from "./web-worker.js";

/** Reference counted: being passed to a function uses it up, `ref` is one more of it. */
interface JaxArray {
  readonly ref: JaxArray;
  readonly shape: readonly number[];
  blockUntilReady(): Promise<JaxArray>;
  data(): Promise<Float32Array | Int32Array>;
  dispose(): void;
}

type Extents = readonly number[];
type ElementType = "float32" | "int32" | "bool";
/** Of several results, the first is that of the case. */
type Compute = (...inputs: JaxArray[]) => JaxArray | readonly JaxArray[];

type JaxDevice = "wasm" | "webgpu";

/** The used part of @jax-js/jax. */
interface Jax {
  init(device: JaxDevice): Promise<readonly string[]>;
  defaultDevice(device: JaxDevice): string;
  blockUntilReady(arrays: readonly JaxArray[]): Promise<unknown>;
  jit(compute: Compute): Compute;
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
    add(a: JaxArray, b: JaxArray | number): JaxArray;
    multiply(a: JaxArray, b: JaxArray): JaxArray;
    divide(a: JaxArray, b: JaxArray): JaxArray;
    sqrt(x: JaxArray): JaxArray;
    mean(x: JaxArray, axis?: number, options?: { readonly keepdims: boolean }): JaxArray;
    transpose(x: JaxArray, axes: Extents): JaxArray;
    where(condition: JaxArray, a: JaxArray, b: JaxArray | number): JaxArray;
    argmax(x: JaxArray, axis: number): JaxArray;
    take(x: JaxArray, indices: JaxArray, axis: number): JaxArray;
    takeAlongAxis(x: JaxArray, indices: JaxArray, axis: number): JaxArray;
    cumsum(x: JaxArray, axis: number): JaxArray;
    ones(shape: Extents): JaxArray;
    greater(x: JaxArray, y: number): JaxArray;
    /** With zeros. */
    pad(x: JaxArray, widths: readonly Extents[]): JaxArray;
  };
  readonly nn: {
    relu(x: JaxArray): JaxArray;
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
      options: { readonly isCausal: boolean },
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

export async function openJax(threads: number): Promise<Peer> {
  const jax = await asInPage(threads, () => loadJax("wasm"));
  return {
    name: "jax-js",
    version: installedVersion("@jax-js/jax"),
    threads,
    note:
      threads > 1
        ? "jit; arrays stay inside; a stand-in for the Worker of pages gives it threads in Node.js"
        : "jit; arrays stay inside",
    open: async (test, inputs) => {
      const { opened } = openCase(jax, test, inputs);
      return { ...opened, read: () => asInPage(threads, opened.read) };
    },
  };
}

/** Results that are kept until the device is waited for. */
const mostKept = 16;

/** On WebGPU, whose globals must be there. */
export async function openJaxOnGpu(): Promise<Peer<GpuPeerName>> {
  const jax = await loadJax("webgpu");
  return {
    name: "jax-js",
    version: installedVersion("@jax-js/jax"),
    threads: 1,
    note: "jit; arrays stay inside; waits for every 16th call",
    open: async (test, inputs) => {
      const { opened, run } = openCase(jax, test, inputs);
      const kept: JaxArray[] = [];
      const finish = async () => {
        await jax.blockUntilReady(kept);
        for (const result of kept.splice(0)) result.dispose();
      };
      // Work whose results nobody has waited for would not be done.
      const call = (): void | Promise<void> => {
        kept.push(...run());
        if (kept.length >= mostKept) return finish();
      };
      return { ...opened, call, finish };
    },
  };
}

async function loadJax(device: JaxDevice): Promise<Jax> {
  const jax = await loadPeer<Jax>("@jax-js/jax");
  if (!(await jax.init(device)).includes(device)) throw new Error(`jax-js has no ${device} here`);
  jax.defaultDevice(device);
  return jax;
}

function openCase(jax: Jax, test: Case, inputs: Inputs): { opened: PeerCase; run: () => JaxArray[] } {
  const array = (name: string) => inputs[name]!.toArray(test.inputs[name]!);
  const { how, shapes, types = {}, compute, layout } = prepare(jax, problemOf(test));
  const arrays = Object.entries(shapes).map(([name, shape]) => {
    const { [name]: dtype = "float32" } = types;
    if (dtype !== "float32") return jax.numpy.array(Int32Array.from(array(name)), { shape, dtype });
    if (layout === undefined) return jax.numpy.array(array(name), { shape, dtype });
    const ordered = layout.map((axis) => shape[axis]!);
    return jax.numpy.array(permuted(array(name), shape, layout), { shape: ordered, dtype });
  });
  const compiled = jax.jit(compute);
  const run = () => [compiled(...arrays.map((each) => each.ref))].flat();
  return { opened: asCase(how, arrays, run, layout), run };
}

/**
 * Runs those steps of jax-js that look at globals: loading, and the first call of a function, which compiles
 * and starts workers. If there is a Worker as in pages, it starts one for each thread that the navigator
 * reports; onnxruntime-web leaves Node.js's own Worker behind, which is another class.
 */
export async function asInPage<Result>(threads: number, work: () => Promise<Result>): Promise<Result> {
  const globals = {
    Worker: threads > 1 ? WebWorker : undefined,
    navigator: { hardwareConcurrency: threads },
  };
  const before = new Map<string, PropertyDescriptor | undefined>();
  for (const [name, value] of Object.entries(globals)) {
    before.set(name, Object.getOwnPropertyDescriptor(globalThis, name));
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  try {
    return await work();
  } finally {
    for (const [name, descriptor] of before)
      if (descriptor === undefined) Reflect.deleteProperty(globalThis, name);
      else Object.defineProperty(globalThis, name, descriptor);
  }
}

function asCase(
  how: string,
  arrays: readonly JaxArray[],
  run: () => JaxArray[],
  layout: Extents | undefined,
): PeerCase {
  return {
    how,
    call: async () => {
      for (const result of run()) {
        await result.blockUntilReady();
        result.dispose();
      }
    },
    read: async () => {
      const [result, ...others] = run() as [JaxArray, ...JaxArray[]];
      for (const other of others) other.dispose();
      const { shape } = result;
      const data = await result.data();
      // The layouts here swap two axes: they are their own inverse.
      return layout === undefined ? data : permuted(data, shape, layout);
    },
    close() {
      for (const array of arrays) array.dispose();
    },
  };
}

interface Prepared {
  readonly how: string;
  /** Of the inputs, in the order of the arguments of `compute`. */
  readonly shapes: Readonly<Record<string, Extents>>;
  /** Element types of those that are not f32. */
  readonly types?: Readonly<Record<string, ElementType>>;
  readonly compute: Compute;
  /** How axes are exchanged, in inputs and result; default: not at all. */
  readonly layout?: Extents;
}

function prepare({ numpy, nn, lax }: Jax, problem: Problem): Prepared {
  switch (problem.operation) {
    case "gemm": {
      const { m, n, k, transA, transB } = problem;
      const turned = (x: JaxArray | undefined, is: boolean) => (is ? numpy.matrixTranspose(x!) : x!);
      return {
        how: "matmul",
        shapes: { a: transA ? [k, m] : [m, k], b: transB ? [n, k] : [k, n] },
        compute: (a, b) => numpy.matmul(turned(a, transA), turned(b, transB)),
      };
    }
    case "batchedGemm": {
      const { batch, m, n, k } = problem;
      const shapes = { a: [batch, m, k], b: [batch, k, n] };
      return { how: "matmul", shapes, compute: (a, b) => numpy.matmul(a!, b!) };
    }
    case "conv2d": {
      const { inputShape, filterShape, stride, padding, groups } = problem;
      const sides = [padding, padding];
      const compute: Compute = (input, filter) =>
        lax.convGeneralDilated(input!, filter!, [stride, stride], [sides, sides], {
          featureGroupCount: groups,
        });
      return { how: "convGeneralDilated", shapes: { input: inputShape, filter: filterShape }, compute };
    }
    case "attention": {
      const { batch, heads, kvHeads, queries, keys, headSize, causal } = problem;
      return {
        how: "dotProductAttention",
        shapes: {
          q: [batch, heads, queries, headSize],
          k: [batch, kvHeads, keys, headSize],
          v: [batch, kvHeads, keys, headSize],
        },
        layout: [0, 2, 1, 3],
        compute: (q, k, v) => nn.dotProductAttention(q!, k!, v!, { isCausal: causal }),
      };
    }
    case "reduce": {
      const { kind, shape, axis } = problem;
      const axes = axis === "all" ? shape.map((_, i) => i) : [axis];
      return { how: kind, shapes: { input: shape }, compute: (input) => numpy[kind](input!, axes) };
    }
    case "unary": {
      const { kind, n } = problem;
      const compute = {
        exp: numpy.exp,
        tanh: numpy.tanh,
        relu: nn.relu,
        gelu: (x: JaxArray) => nn.gelu(x, { approximate: false }),
      }[kind];
      return { how: kind, shapes: { input: [n] }, compute: (input) => compute(input!) };
    }
    case "binary": {
      const { kind, rows, columns, broadcast } = problem;
      const shapes = { a: [rows, columns], b: broadcast ? [columns] : [rows, columns] };
      const operation = kind === "add" ? "add" : "multiply";
      return { how: operation, shapes, compute: (a, b) => numpy[operation](a!, b!) };
    }
    case "softmax": {
      const { kind, shape, axis } = problem;
      return { how: kind, shapes: { input: shape }, compute: (input) => nn[kind](input!, axis) };
    }
    case "normalize":
      return normalize(numpy, nn, problem);
    case "copy": {
      const { inputShape, axes } = transposition(problem.shape, problem.inputStrides);
      const compute: Compute = (input) => numpy.transpose(input!, axes);
      return { how: "transpose", shapes: { input: inputShape }, compute };
    }
    case "select": {
      const shapes = { condition: [problem.n], a: [problem.n], b: [problem.n] };
      const compute: Compute = (condition, a, b) => numpy.where(condition!, a!, b!);
      return { how: "where", shapes, types: { condition: "bool" }, compute };
    }
    case "argReduce": {
      const { shape, axis } = problem;
      return { how: "argmax", shapes: { input: shape }, compute: (input) => numpy.argmax(input!, axis) };
    }
    case "gather": {
      const { shape, axis, indexShape } = problem;
      const indices = axis === 0 ? [indexShape[0]] : indexShape;
      const how = axis === 0 ? "take" : "takeAlongAxis";
      return {
        ...{ how, shapes: { input: shape, indices }, types: { indices: "int32" } },
        compute: (input, indices) => numpy[how](input!, indices!, axis),
      };
    }
    case "scan": {
      const { shape, axis } = problem;
      return { how: "cumsum", shapes: { input: shape }, compute: (input) => numpy.cumsum(input!, axis) };
    }
    case "sort": {
      const { shape, count } = problem;
      return { how: "topK", shapes: { input: shape }, compute: (input) => lax.topK(input!, count) };
    }
    case "pool2d":
      return pool2d(numpy, lax, problem);
    case "scatter":
    case "resize2d":
    case "quantizedGemm":
    case "rope":
      throw new Error(`jax-js has no ${problem.operation}`);
  }
}

function normalize(numpy: Jax["numpy"], nn: Jax["nn"], { kind, rows, size }: NormalizeProblem): Prepared {
  const epsilon = 1e-5;
  const shapes = { input: [rows, size], weight: [size] };
  if (kind === "layer") {
    const compute: Compute = (input, weight, bias) =>
      numpy.add(numpy.multiply(nn.standardize(input!, -1, { epsilon }), weight!), bias!);
    return { how: "standardize, multiply, add", shapes: { ...shapes, bias: [size] }, compute };
  }
  const compute: Compute = (input, weight) => {
    const squares = numpy.mean(numpy.multiply(input!.ref, input!.ref), -1, { keepdims: true });
    return numpy.multiply(numpy.divide(input!, numpy.sqrt(numpy.add(squares, epsilon))), weight!);
  };
  return { how: "rms written out", shapes, compute };
}

/** There is no padding of windows: what is added around an image for maxima is replaced by a number below all. */
function pool2d(
  numpy: Jax["numpy"],
  lax: Jax["lax"],
  { kind, inputShape, kernel, stride = kernel, padding }: PoolProblem,
): Prepared {
  const reduced = kind === "max" ? numpy.max : numpy.mean;
  const pooled = (x: JaxArray) => lax.reduceWindow(x, (window) => reduced(window), kernel, stride);
  const shapes = { input: inputShape };
  if (padding === undefined) return { how: "reduceWindow", shapes, compute: (input) => pooled(input!) };
  if (kind !== "max") throw new Error("jax-js has no mean of padded windows");
  const [top, left, bottom, right] = padding;
  const widths = [
    [0, 0],
    [0, 0],
    [top, bottom],
    [left, right],
  ];
  const compute: Compute = (input) => {
    const inside = numpy.greater(numpy.pad(numpy.ones(inputShape), widths), 0);
    return pooled(numpy.where(inside, numpy.pad(input!, widths), Number.NEGATIVE_INFINITY));
  };
  return { how: "pad, where, reduceWindow", shapes, compute };
}
