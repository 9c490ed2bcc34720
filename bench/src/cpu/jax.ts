import { installedVersion } from "./installed.js";
import { permuted } from "./layout.js";
import { loadPeer, type Peer, type PeerCase } from "./peer.js";
import { type Problem, problemOf } from "./problem.js";
import { WebWorker } from "./web-worker.js";

/** Reference counted: being passed to a function uses it up, `ref` is one more of it. */
interface JaxArray {
  readonly ref: JaxArray;
  readonly shape: readonly number[];
  blockUntilReady(): Promise<JaxArray>;
  data(): Promise<Float32Array>;
  dispose(): void;
}

type Extents = readonly number[];
type Compute = (...inputs: JaxArray[]) => JaxArray;

/** The used part of @jax-js/jax. */
interface Jax {
  init(device: "wasm"): Promise<readonly string[]>;
  defaultDevice(device: "wasm"): string;
  jit(compute: Compute): Compute;
  readonly numpy: {
    array(data: Float32Array, options: { readonly shape: Extents }): JaxArray;
    matmul(a: JaxArray, b: JaxArray): JaxArray;
    matrixTranspose(x: JaxArray): JaxArray;
    sum(x: JaxArray, axes: Extents): JaxArray;
    max(x: JaxArray, axes: Extents): JaxArray;
    exp(x: JaxArray): JaxArray;
    tanh(x: JaxArray): JaxArray;
    add(a: JaxArray, b: JaxArray): JaxArray;
    multiply(a: JaxArray, b: JaxArray): JaxArray;
  };
  readonly nn: {
    relu(x: JaxArray): JaxArray;
    gelu(x: JaxArray, options: { readonly approximate: boolean }): JaxArray;
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
  };
}

export async function openJax(threads: number): Promise<Peer> {
  const jax = await asInPage(threads, () => loadPeer<Jax>("@jax-js/jax"));
  if (!(await jax.init("wasm")).includes("wasm")) throw new Error("jax-js has no WebAssembly here");
  jax.defaultDevice("wasm");
  return {
    name: "jax-js",
    version: installedVersion("@jax-js/jax"),
    threads,
    note:
      threads > 1
        ? "jit; arrays stay inside; a stand-in for the Worker of pages gives it threads in Node.js"
        : "jit; arrays stay inside",
    open: async (test, inputs) => {
      const array = (name: string) => inputs[name]!.toArray(test.inputs[name]!);
      const { how, shapes, compute, layout } = prepare(jax, problemOf(test));
      const arrays = Object.entries(shapes).map(([name, shape]) => {
        if (layout === undefined) return jax.numpy.array(array(name), { shape });
        const ordered = layout.map((axis) => shape[axis]!);
        return jax.numpy.array(permuted(array(name), shape, layout), { shape: ordered });
      });
      const opened = asCase(how, arrays, jax.jit(compute), layout);
      return { ...opened, read: () => asInPage(threads, opened.read) };
    },
  };
}

/**
 * Runs those steps of jax-js that look at globals: loading, and the first call of a function, which compiles
 * and starts workers. If there is a Worker as in pages, it starts one for each thread that the navigator
 * reports; onnxruntime-web leaves Node.js's own Worker behind, which is another class.
 */
async function asInPage<Result>(threads: number, work: () => Promise<Result>): Promise<Result> {
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
  compute: Compute,
  layout: Extents | undefined,
): PeerCase {
  const run = () => compute(...arrays.map((array) => array.ref));
  return {
    how,
    call: async () => {
      const result = run();
      await result.blockUntilReady();
      result.dispose();
    },
    read: async () => {
      const result = run();
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
  }
}
