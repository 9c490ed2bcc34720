import { encodeFloat16, type FloatType } from "@backplane/core";
import type { Inputs } from "../cases/case.js";
import { causalMask } from "./layout.js";
import { type ElementType, elementTypes, encodeModel, type Graph, microsoft, type Node } from "./onnx.js";
import {
  type ArgReduceProblem,
  type AttentionProblem,
  type BatchedGemmProblem,
  type BinaryProblem,
  type ConvolutionGradientProblem,
  type ConvolutionProblem,
  type CopyProblem,
  copyForm,
  evaluateMap,
  type GatherProblem,
  type GemmProblem,
  type MapProblem,
  type NormalizeProblem,
  type PoolProblem,
  type Problem,
  type QuantizedGemmProblem,
  type RandomProblem,
  type ReduceProblem,
  type ResizeProblem,
  type RopeProblem,
  reducedAxes,
  type ScanProblem,
  type ScatterProblem,
  type SelectProblem,
  type SoftmaxProblem,
  type SortProblem,
  type UnaryProblem,
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
export function onnxForms(problem: Problem & { readonly dtype: FloatType }, data: Inputs): Form[] {
  return drafts(problem, data).map(({ how, graph }) => {
    const whole = problem.dtype === "f16" ? inHalves(graph) : graph;
    const { inputs, outputs, types = {} } = whole;
    return { how, model: encodeModel(whole), inputs, outputs, types };
  });
}

/** The graph with f16 in place of f32 everywhere. */
function inHalves(graph: Graph): Graph {
  const names = [...Object.keys(graph.inputs), ...Object.keys(graph.outputs)];
  const types = Object.fromEntries(names.map((name) => [name, "float16" as const]));
  const initializers = Object.entries(graph.initializers ?? {}).map(([name, { shape, data }]) => [
    name,
    { shape, data: data instanceof Float32Array ? encodeFloat16(data) : data },
  ]);
  return { ...graph, types: { ...types, ...graph.types }, initializers: Object.fromEntries(initializers) };
}

interface Draft {
  readonly how: string;
  readonly graph: Graph;
}

function drafts(problem: Problem, data: Inputs): Draft[] {
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
    case "random":
      return [random(problem)];
    case "map":
      return [map(problem)];
    case "conv2dInputGradient":
      return [transposedConvolution(problem, data)];
    case "softmaxGradient":
    case "normalizeGradient":
    case "pool2dGradient":
    case "conv2dFilterGradient":
    case "attentionGradient":
      throw new Error("onnxruntime has no such gradient");
  }
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
function single(op: string, inputs: Shapes, output: Shape, more: Single = {}): Draft {
  const { attributes = {}, domain, initializers = {}, types = {}, others = {}, note } = more;
  const { order = [...Object.keys(inputs), ...Object.keys(initializers)] } = more;
  const node: Node = {
    ...{ op, inputs: order, output: [outputName, ...Object.keys(others)], attributes },
    ...(domain === undefined ? {} : { domain }),
  };
  const outputs = { [outputName]: output, ...others };
  const name = domain === undefined ? op : `${domain}.${op}`;
  return {
    how: note === undefined ? name : `${name}, ${note}`,
    graph: { nodes: [node], inputs, outputs, initializers, types },
  };
}

/** Whole numbers that are part of a model, as operators want shapes and axes. */
function integers(...values: readonly number[]) {
  return { shape: [values.length], data: BigInt64Array.from(values, BigInt) };
}

/** B is a weight, as in a linear layer. */
function gemm({ m, n, k, transA, transB }: GemmProblem, { b }: Inputs): Draft {
  const isGemm = transA || transB;
  return single(isGemm ? "Gemm" : "MatMul", { a: transA ? [k, m] : [m, k] }, [m, n], {
    attributes: isGemm ? { transA: Number(transA), transB: Number(transB) } : {},
    initializers: { b: { shape: transB ? [n, k] : [k, n], data: b!.toArray(n * k) } },
    note: "B in the model",
  });
}

function batchedGemm({ batch, m, n, k }: BatchedGemmProblem): Draft {
  return single("MatMul", { a: [batch, m, k], b: [batch, k, n] }, [batch, m, n]);
}

function conv2d(
  { inputShape, filterShape, stride, padding, groups }: ConvolutionProblem,
  { filter }: Inputs,
): Draft {
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

function attention(problem: AttentionProblem): Draft[] {
  const { batch, heads, kvHeads, queries, keys, headSize, causal, mask } = problem;
  const q = [batch, heads, queries, headSize];
  const inputs = {
    ...{ q, k: [batch, kvHeads, keys, headSize], v: [batch, kvHeads, keys, headSize] },
    ...(mask === undefined ? {} : { mask: [queries, keys] }),
  };
  const types: Graph["types"] = mask === "boolean" ? { mask: "bool" } : {};
  const attributes = { is_causal: Number(causal) };
  const forms = [single("Attention", inputs, q, { attributes, types })];
  // The written-out form has no grouped heads.
  if (kvHeads === heads) forms.push(writtenOut(problem, inputs, q, types));
  return forms;
}

/** Attention as exporters write it if there is no operator for it. */
function writtenOut(
  { queries, keys, headSize, causal, mask }: AttentionProblem,
  inputs: Shapes,
  output: Shape,
  types: Graph["types"] & {},
): Draft {
  const scale = { shape: [], data: Float32Array.of(1 / Math.sqrt(headSize)) };
  const masking: Readonly<Record<"additive" | "boolean", Node>> = {
    additive: { op: "Add", inputs: ["scores", "mask"], output: "masked" },
    boolean: { op: "Where", inputs: ["mask", "scores", "hidden"], output: "masked" },
  };
  const kind = mask ?? (causal ? "additive" : undefined);
  const initializers: Graph["initializers"] = {
    scale,
    ...(causal ? { mask: { shape: [queries, keys], data: causalMask(queries, keys) } } : {}),
    ...(kind === "boolean" ? { hidden: { shape: [], data: Float32Array.of(-1e30) } } : {}),
  };
  const graph: Graph = {
    nodes: [
      { op: "Transpose", inputs: ["k"], output: "turned", attributes: { perm: [0, 1, 3, 2] } },
      { op: "Mul", inputs: ["q", "scale"], output: "scaled" },
      { op: "MatMul", inputs: ["scaled", "turned"], output: "scores" },
      ...(kind === undefined ? [] : [masking[kind]]),
      {
        op: "Softmax",
        inputs: [kind === undefined ? "scores" : "masked"],
        output: "weights",
        attributes: { axis: -1 },
      },
      { op: "MatMul", inputs: ["weights", "v"], output: outputName },
    ],
    ...{ inputs, outputs: { [outputName]: output }, initializers, types },
  };
  return { how: `MatMul, Softmax, MatMul${causal ? ", mask in the model" : ""}`, graph };
}

const reduceOperators = { sum: "ReduceSum", max: "ReduceMax", logSumExp: "ReduceLogSumExp" } as const;

function reduce(problem: ReduceProblem): Draft {
  const { kind, shape } = problem;
  const axes = reducedAxes(problem);
  const output = shape.filter((_, i) => !axes.includes(i));
  return single(reduceOperators[kind], { input: shape }, output, {
    ...{ attributes: { keepdims: 0 }, initializers: { axes: integers(...axes) } },
  });
}

const unaryOperators = { exp: "Exp", tanh: "Tanh", relu: "Relu", gelu: "Gelu" } as const;

function unary({ kind, n }: UnaryProblem): Draft {
  return single(unaryOperators[kind], { input: [n] }, [n]);
}

const binaryOperators = { add: "Add", mul: "Mul", greater: "Greater" } as const;

function binary({ kind, rows, columns, broadcast }: BinaryProblem): Draft {
  const shape = [rows, columns];
  return single(binaryOperators[kind], { a: shape, b: broadcast ? [columns] : shape }, shape, {
    types: kind === "greater" ? { [outputName]: "bool" } : {},
  });
}

function softmax({ kind, shape, axis }: SoftmaxProblem): Draft {
  const op = kind === "softmax" ? "Softmax" : "LogSoftmax";
  return single(op, { input: shape }, shape, { attributes: { axis } });
}

const normalizeOperators = { layer: "LayerNormalization", rms: "RMSNormalization" } as const;

function normalize({ kind, rows, size }: NormalizeProblem, data: Inputs): Draft {
  const factors = kind === "layer" ? ["weight", "bias"] : ["weight"];
  return single(normalizeOperators[kind], { input: [rows, size] }, [rows, size], {
    attributes: { axis: -1, epsilon: { float: 1e-5 } },
    initializers: Object.fromEntries(
      factors.map((name) => [name, { shape: [size], data: data[name]!.toArray(size) }]),
    ),
    note: `${factors.join(" and ")} in the model`,
  });
}

/** Below every place: as an end, it takes in the first element when steps go backwards. */
const beforeAll = -(2 ** 31);

function copy(problem: CopyProblem): Draft {
  const form = copyForm(problem);
  switch (form.form) {
    case "transpose": {
      const output = form.axes.map((axis) => form.inputShape[axis]!);
      return single("Transpose", { input: form.inputShape }, output, { attributes: { perm: form.axes } });
    }
    case "slice":
    case "flip": {
      const isFlip = form.form === "flip";
      return single("Slice", { input: form.inputShape }, [form.inputShape[0], form.columns], {
        initializers: {
          ...{ starts: integers(isFlip ? -1 : 0), ends: integers(isFlip ? beforeAll : form.columns) },
          ...{ axes: integers(1), steps: integers(isFlip ? -1 : 1) },
        },
        ...(isFlip ? { note: "step -1" } : {}),
      });
    }
    case "concat": {
      const shape = [form.rows, form.columns];
      const output = [form.rows, 2 * form.columns];
      return single("Concat", { a: shape, b: shape }, output, { attributes: { axis: 1 } });
    }
    case "pad":
      return single("Pad", { input: [form.rows, form.columns] }, [form.rows + 2, form.columns + 2], {
        initializers: { pads: integers(1, 1, 1, 1) },
      });
    case "convert":
      return single("Cast", { input: form.inputShape }, form.inputShape, {
        ...{ attributes: { to: elementTypes.float16 }, types: { [outputName]: "float16" } },
      });
  }
}

function select({ n }: SelectProblem): Draft {
  return single("Where", { condition: [n], a: [n], b: [n] }, [n], { types: { condition: "bool" } });
}

function argReduce({ shape, axis }: ArgReduceProblem): Draft {
  return single("ArgMax", { input: shape }, shape.toSpliced(axis, 1), {
    ...{ attributes: { axis, keepdims: 0 }, types: { [outputName]: "int64" } },
  });
}

/** Indices may be i32 as well as i64; ours are i32. */
function gather({ shape, axis, indexShape }: GatherProblem): Draft {
  const more: Single = { attributes: { axis }, types: { indices: "int32" } };
  if (axis === 1) return single("GatherElements", { input: shape, indices: indexShape }, indexShape, more);
  const [count] = indexShape;
  return single("Gather", { input: shape, indices: [count] }, [count, shape[1]], more);
}

function scan({ shape, axis }: ScanProblem): Draft {
  return single("CumSum", { input: shape }, shape, { initializers: { axis: integers(axis) } });
}

function sort({ shape: [rows], shape, count }: SortProblem): Draft {
  return single("TopK", { input: shape }, [rows, count], {
    attributes: { axis: -1, largest: 1, sorted: 1 },
    initializers: { count: integers(count) },
    others: { indices: [rows, count] },
    types: { indices: "int64" },
  });
}

function scatter({ shape, indexShape }: ScatterProblem): Draft {
  const inputs = { output: shape, indices: indexShape, updates: [indexShape[0], shape[1]] };
  return single("ScatterND", inputs, shape, {
    ...{ attributes: { reduction: "add" }, types: { indices: "int64" } },
  });
}

function pool2d({ kind, inputShape, kernel, stride = kernel, padding = [0, 0, 0, 0] }: PoolProblem): Draft {
  const [images, channels, height, width] = inputShape;
  const [top, left, bottom, right] = padding;
  const extent = (size: number, axis: 0 | 1) => Math.floor((size - kernel[axis]) / stride[axis]) + 1;
  const output = [images, channels, extent(height + top + bottom, 0), extent(width + left + right, 1)];
  return single(kind === "max" ? "MaxPool" : "AveragePool", { input: inputShape }, output, {
    attributes: { kernel_shape: kernel, pads: padding, strides: stride },
  });
}

function resize2d({ kind, inputShape, outputHeight, outputWidth }: ResizeProblem): Draft {
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
function quantizedGemm({ m, n, k }: QuantizedGemmProblem, { b, scales }: Inputs): Draft {
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
function rope({ kind, batch, heads, rows, size, length }: RopeProblem, { cos, sin }: Inputs): Draft[] {
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

function random({ kind, count }: RandomProblem): Draft {
  const op = kind === "uniform" ? "RandomUniform" : "RandomNormal";
  return single(op, {}, [count], {
    attributes: { dtype: elementTypes.float32, seed: { float: 1 }, shape: [count] },
  });
}

const mapOperators: Readonly<Record<string, string>> = {
  ...{ abs: "Abs", relu: "Relu", sigmoid: "Sigmoid", sqrt: "Sqrt" },
  ...{ add: "Add", div: "Div", mul: "Mul", sub: "Sub" },
};

/** A node for each function. Parameters are part of the model. */
function map(problem: MapProblem): Draft {
  const { shape } = problem;
  const nodes: Node[] = [];
  const initializers: Record<string, { readonly shape: Shape; readonly data: Float32Array }> = {};
  const inputs: Record<string, Shape> = {};
  const named = (x: string | number): string => {
    if (typeof x === "string") return x;
    initializers[`number ${x}`] = { shape: [], data: Float32Array.of(x) };
    return `number ${x}`;
  };
  const apply = (kind: string, ...values: (string | number)[]): string => {
    const output = `value ${nodes.length}`;
    nodes.push({ op: mapOperators[kind]!, inputs: values.map(named), output });
    return output;
  };
  const results = evaluateMap<string>(problem, {
    input(index) {
      inputs[`inputs[${index}]`] = shape;
      return `inputs[${index}]`;
    },
    unary: apply,
    binary: apply,
  });
  const names = results.map((_, i) => (i === 0 ? outputName : `outputs[${i}]`));
  results.forEach((result, i) => {
    nodes.push({ op: "Identity", inputs: [result], output: names[i]! });
  });
  const outputs = Object.fromEntries(names.map((name) => [name, shape]));
  return { how: "one by one", graph: { nodes, inputs, outputs, initializers } };
}

/** What ONNX calls a transposed convolution. */
function transposedConvolution(
  { inputShape, filterShape, stride, padding, groups }: ConvolutionGradientProblem,
  { filter }: Inputs,
): Draft {
  const [filters, own, height, width] = filterShape;
  const [images, , rows, columns] = inputShape;
  const extent = (size: number, kernel: number) => Math.floor((size + 2 * padding - kernel) / stride) + 1;
  const given = [images, filters, extent(rows, height), extent(columns, width)];
  return single("ConvTranspose", { outputGradient: given }, inputShape, {
    attributes: {
      ...{ kernel_shape: [height, width], pads: [padding, padding, padding, padding] },
      ...{ strides: [stride, stride], group: groups },
    },
    initializers: {
      filter: { shape: filterShape, data: filter!.toArray(filters * own * height * width) },
    },
    note: "filters in the model",
  });
}
