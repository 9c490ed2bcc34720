import type { Inputs } from "../cases/case.js";
import { causalMask, transposition } from "./layout.js";
import { type ElementType, encodeModel, type Graph, microsoft, type Node } from "./onnx.js";
import type {
  ArgReduceProblem,
  AttentionProblem,
  BatchedGemmProblem,
  BinaryProblem,
  ConvolutionProblem,
  CopyProblem,
  GatherProblem,
  GemmProblem,
  NormalizeProblem,
  PoolProblem,
  Problem,
  QuantizedGemmProblem,
  ReduceProblem,
  ResizeProblem,
  RopeProblem,
  ScanProblem,
  ScatterProblem,
  SelectProblem,
  SoftmaxProblem,
  SortProblem,
  UnaryProblem,
} from "./problem.js";

/** One way to ask for a problem in ONNX. */
export interface Form {
  /** Operators, and the parts that belong to the model. */
  readonly how: string;
  readonly model: Uint8Array<ArrayBuffer>;
  /** Shapes of the inputs of each run, by the names of the case's arguments. */
  readonly inputs: Shapes;
  /** Shapes of all outputs; that of the case is `outputName`. */
  readonly outputs: Shapes;
  /** Element types of those inputs and outputs that are not f32. */
  readonly types: Readonly<Record<string, ElementType>>;
}

type Shape = readonly number[];
type Shapes = Readonly<Record<string, Shape>>;

/** The name of the output that is compared. */
export const outputName = "result";

/** Ways to ask for the problem: all that a user may well write, since one may be faster than another. */
export function onnxForms(problem: Problem, data: Inputs): Form[] {
  switch (problem.operation) {
    case "gemm":
      return [gemm(problem, data)];
    case "batchedGemm":
      return [batchedGemm(problem)];
    case "conv2d":
      return [conv2d(problem, data)];
    case "attention":
      return attention(problem);
    case "reduce":
      return [reduce(problem)];
    case "unary":
      return [unary(problem)];
    case "binary":
      return [binary(problem)];
    case "softmax":
      return [softmax(problem)];
    case "normalize":
      return [normalize(problem, data)];
    case "copy":
      return [copy(problem)];
    case "select":
      return [select(problem)];
    case "argReduce":
      return [argReduce(problem)];
    case "gather":
      return [gather(problem)];
    case "scan":
      return [scan(problem)];
    case "sort":
      return [sort(problem)];
    case "scatter":
      return [scatter(problem)];
    case "pool2d":
      return [pool2d(problem)];
    case "resize2d":
      return [resize2d(problem)];
    case "quantizedGemm":
      return [quantizedGemm(problem, data)];
    case "rope":
      return rope(problem, data);
  }
}

function form(how: string, graph: Graph): Form {
  const { inputs, outputs, types = {} } = graph;
  return { how, model: encodeModel(graph), inputs, outputs, types };
}

interface Single {
  readonly attributes?: Node["attributes"];
  readonly domain?: Node["domain"];
  readonly initializers?: Graph["initializers"];
  readonly types?: Graph["types"];
  /** Names of the operator's inputs. Default: the inputs, then the initializers. */
  readonly order?: readonly string[];
  /** Shapes of further outputs, by the names of the case's arguments. */
  readonly others?: Shapes;
  /** In the report, after the operator's name. */
  readonly note?: string;
}

/** One operator. */
function single(op: string, inputs: Shapes, output: Shape, more: Single = {}): Form {
  const { attributes = {}, domain, initializers = {}, types = {}, others = {}, note } = more;
  const { order = [...Object.keys(inputs), ...Object.keys(initializers)] } = more;
  const node: Node = {
    ...{ op, inputs: order, output: [outputName, ...Object.keys(others)], attributes },
    ...(domain === undefined ? {} : { domain }),
  };
  const outputs = { [outputName]: output, ...others };
  const name = domain === undefined ? op : `${domain}.${op}`;
  return form(note === undefined ? name : `${name}, ${note}`, {
    ...{ nodes: [node], inputs, outputs, initializers, types },
  });
}

/** Whole numbers that are part of a model, as operators want shapes and axes. */
function integers(...values: readonly number[]) {
  return { shape: [values.length], data: BigInt64Array.from(values, BigInt) };
}

/** B is a weight, as in a linear layer. */
function gemm({ m, n, k, transA, transB }: GemmProblem, { b }: Inputs): Form {
  const isGemm = transA || transB;
  return single(isGemm ? "Gemm" : "MatMul", { a: transA ? [k, m] : [m, k] }, [m, n], {
    attributes: isGemm ? { transA: Number(transA), transB: Number(transB) } : {},
    initializers: { b: { shape: transB ? [n, k] : [k, n], data: b!.toArray(n * k) } },
    note: "B in the model",
  });
}

function batchedGemm({ batch, m, n, k }: BatchedGemmProblem): Form {
  return single("MatMul", { a: [batch, m, k], b: [batch, k, n] }, [batch, m, n]);
}

function conv2d(
  { inputShape, filterShape, stride, padding, groups }: ConvolutionProblem,
  { filter }: Inputs,
): Form {
  const [filters, own, height, width] = filterShape;
  const [images, , rows, columns] = inputShape;
  const extent = (size: number, kernel: number) => Math.floor((size + 2 * padding - kernel) / stride) + 1;
  const output = [images, filters, extent(rows, height), extent(columns, width)];
  return single("Conv", { input: inputShape }, output, {
    attributes: {
      kernel_shape: [height, width],
      pads: [padding, padding, padding, padding],
      strides: [stride, stride],
      group: groups,
    },
    initializers: {
      filter: { shape: filterShape, data: filter!.toArray(filters * own * height * width) },
    },
    note: "filters in the model",
  });
}

function attention(problem: AttentionProblem): Form[] {
  const { batch, heads, kvHeads, queries, keys, headSize, causal } = problem;
  const inputs = {
    q: [batch, heads, queries, headSize],
    k: [batch, kvHeads, keys, headSize],
    v: [batch, kvHeads, keys, headSize],
  };
  const forms = [single("Attention", inputs, inputs.q, { attributes: { is_causal: Number(causal) } })];
  // The written-out form has no grouped heads.
  if (kvHeads === heads) forms.push(writtenOut(problem, inputs));
  return forms;
}

/** Attention as exporters write it if there is no operator for it. */
function writtenOut(
  { queries, keys, headSize, causal }: AttentionProblem,
  inputs: { readonly q: Shape; readonly k: Shape; readonly v: Shape },
): Form {
  const scale = { shape: [], data: Float32Array.of(1 / Math.sqrt(headSize)) };
  return form(`MatMul, Softmax, MatMul${causal ? ", mask in the model" : ""}`, {
    nodes: [
      { op: "Transpose", inputs: ["k"], output: "turned", attributes: { perm: [0, 1, 3, 2] } },
      { op: "Mul", inputs: ["q", "scale"], output: "scaled" },
      { op: "MatMul", inputs: ["scaled", "turned"], output: "scores" },
      ...(causal ? [{ op: "Add", inputs: ["scores", "mask"], output: "masked" }] : []),
      {
        op: "Softmax",
        inputs: [causal ? "masked" : "scores"],
        output: "weights",
        attributes: { axis: -1 },
      },
      { op: "MatMul", inputs: ["weights", "v"], output: outputName },
    ],
    inputs,
    outputs: { [outputName]: inputs.q },
    initializers: {
      scale,
      ...(causal ? { mask: { shape: [queries, keys], data: causalMask(queries, keys) } } : {}),
    },
  });
}

function reduce({ kind, shape, axis }: ReduceProblem): Form {
  const axes = axis === "all" ? shape.map((_, i) => i) : [axis];
  const output = shape.filter((_, i) => !axes.includes(i));
  return single(kind === "sum" ? "ReduceSum" : "ReduceMax", { input: shape }, output, {
    ...{ attributes: { keepdims: 0 }, initializers: { axes: integers(...axes) } },
  });
}

const unaryOperators = { exp: "Exp", tanh: "Tanh", relu: "Relu", gelu: "Gelu" } as const;

function unary({ kind, n }: UnaryProblem): Form {
  return single(unaryOperators[kind], { input: [n] }, [n]);
}

function binary({ kind, rows, columns, broadcast }: BinaryProblem): Form {
  const shape = [rows, columns];
  return single(kind === "add" ? "Add" : "Mul", { a: shape, b: broadcast ? [columns] : shape }, shape);
}

function softmax({ kind, shape, axis }: SoftmaxProblem): Form {
  const op = kind === "softmax" ? "Softmax" : "LogSoftmax";
  return single(op, { input: shape }, shape, { attributes: { axis } });
}

const normalizeOperators = { layer: "LayerNormalization", rms: "RMSNormalization" } as const;

function normalize({ kind, rows, size }: NormalizeProblem, data: Inputs): Form {
  const factors = kind === "layer" ? ["weight", "bias"] : ["weight"];
  return single(normalizeOperators[kind], { input: [rows, size] }, [rows, size], {
    attributes: { axis: -1, epsilon: { float: 1e-5 } },
    initializers: Object.fromEntries(
      factors.map((name) => [name, { shape: [size], data: data[name]!.toArray(size) }]),
    ),
    note: `${factors.join(" and ")} in the model`,
  });
}

function copy({ shape, inputStrides }: CopyProblem): Form {
  const { inputShape, axes } = transposition(shape, inputStrides);
  return single("Transpose", { input: inputShape }, shape, { attributes: { perm: axes } });
}

function select({ n }: SelectProblem): Form {
  return single("Where", { condition: [n], a: [n], b: [n] }, [n], { types: { condition: "bool" } });
}

function argReduce({ shape, axis }: ArgReduceProblem): Form {
  return single("ArgMax", { input: shape }, shape.toSpliced(axis, 1), {
    ...{ attributes: { axis, keepdims: 0 }, types: { [outputName]: "int64" } },
  });
}

/** Indices may be i32 as well as i64; ours are i32. */
function gather({ shape, axis, indexShape }: GatherProblem): Form {
  const more: Single = { attributes: { axis }, types: { indices: "int32" } };
  if (axis === 1) return single("GatherElements", { input: shape, indices: indexShape }, indexShape, more);
  const [count] = indexShape;
  return single("Gather", { input: shape, indices: [count] }, [count, shape[1]], more);
}

function scan({ shape, axis }: ScanProblem): Form {
  return single("CumSum", { input: shape }, shape, { initializers: { axis: integers(axis) } });
}

function sort({ shape: [rows], shape, count }: SortProblem): Form {
  return single("TopK", { input: shape }, [rows, count], {
    attributes: { axis: -1, largest: 1, sorted: 1 },
    initializers: { count: integers(count) },
    others: { indices: [rows, count] },
    types: { indices: "int64" },
  });
}

function scatter({ shape, indexShape }: ScatterProblem): Form {
  const inputs = { output: shape, indices: indexShape, updates: [indexShape[0], shape[1]] };
  return single("ScatterND", inputs, shape, {
    ...{ attributes: { reduction: "add" }, types: { indices: "int64" } },
  });
}

function pool2d({ kind, inputShape, kernel, stride = kernel, padding = [0, 0, 0, 0] }: PoolProblem): Form {
  const [images, channels, height, width] = inputShape;
  const [top, left, bottom, right] = padding;
  const extent = (size: number, axis: 0 | 1) => Math.floor((size - kernel[axis]) / stride[axis]) + 1;
  const output = [images, channels, extent(height + top + bottom, 0), extent(width + left + right, 1)];
  return single(kind === "max" ? "MaxPool" : "AveragePool", { input: inputShape }, output, {
    attributes: { kernel_shape: kernel, pads: padding, strides: stride },
  });
}

function resize2d({ kind, inputShape, outputHeight, outputWidth }: ResizeProblem): Form {
  const [images, channels] = inputShape;
  const output = [images, channels, outputHeight, outputWidth];
  return single("Resize", { input: inputShape }, output, {
    attributes: {
      mode: kind === "bilinear" ? "linear" : "nearest",
      coordinate_transformation_mode: "half_pixel",
      ...(kind === "bilinear" ? {} : { nearest_mode: "round_prefer_ceil" }),
    },
    initializers: { sizes: integers(...output) },
    order: ["input", "", "", "sizes"],
  });
}

/** Computed in f32: no accuracy_level allows less. */
function quantizedGemm({ m, n, k }: QuantizedGemmProblem, { b, scales }: Inputs): Form {
  const [bits, block] = [4, 32];
  const blocks = k / block;
  const bytes = (block * bits) / 8;
  return single("MatMulNBits", { a: [m, k] }, [m, n], {
    domain: microsoft,
    attributes: { K: k, N: n, bits, block_size: block },
    initializers: {
      b: { shape: [n, blocks, bytes], data: Uint8Array.from(b!.toArray(n * blocks * bytes)) },
      scales: { shape: [n * blocks], data: scales!.toArray(n * blocks) },
    },
    note: "B in the model",
  });
}

/** ONNX has such an operator, and onnxruntime an older one. */
function rope({ kind, batch, heads, rows, size, length }: RopeProblem, { cos, sin }: Inputs): Form[] {
  const shape = [batch, heads, rows, size];
  const half = size / 2;
  const table = [length, half];
  const tables = { cos: cos!.toArray(length * half), sin: sin!.toArray(length * half) };
  const attributes = { interleaved: Number(kind === "neighbours") };
  const note = "tables in the model";
  const positions = { shape: [1], data: BigInt64Array.of(0n) };
  const of = (shape: Shape) => ({
    cos: { shape, data: tables.cos },
    sin: { shape, data: tables.sin },
  });
  return [
    single("RotaryEmbedding", { input: shape }, shape, {
      ...{ attributes, initializers: of([batch, ...table]), note },
    }),
    single("RotaryEmbedding", { input: shape }, shape, {
      ...{ attributes, initializers: { positions, ...of(table) }, domain: microsoft, note },
    }),
  ];
}
