import { encodeFloat16, type FloatType } from "@backplane/core";
import type { Inputs } from "../cases/case.js";
import {
  type ElementType,
  elementTypes,
  encodeModel,
  type Graph,
  microsoft,
  type Node,
  newestOpset,
} from "./onnx.js";
import {
  type Draft,
  integers,
  outputName,
  type Shape,
  type Shapes,
  type Single,
  single,
} from "./onnx-draft.js";
import {
  attention,
  batchedGemm,
  conv2d,
  gemm,
  quantizedGemm,
  transposedConvolution,
} from "./onnx-products.js";
import {
  type ArgReduceProblem,
  type BinaryProblem,
  type CopyProblem,
  checkChannelsFirst,
  copyForm,
  evaluateMap,
  type GatherProblem,
  type MapProblem,
  type NormalizeProblem,
  type PoolProblem,
  type Problem,
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

/** Ways to ask for the problem: all that a user may well write, since one may be faster than another. */
export function onnxForms(
  problem: Problem & { readonly dtype: FloatType },
  data: Inputs,
  opsets: readonly number[] = [newestOpset],
): Form[] {
  return drafts(problem, data).flatMap(({ how, graph }) => {
    const whole = problem.dtype === "f16" ? inHalves(graph) : graph;
    const { inputs, outputs, types = {} } = whole;
    return opsets.map((opset) => ({
      how: opset === newestOpset ? how : `${how}, opset ${opset}`,
      ...{ model: encodeModel(whole, opset), inputs, outputs, types },
    }));
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

function pool2d(problem: PoolProblem): Draft {
  checkChannelsFirst(problem, "onnxruntime");
  const { kind, inputShape, kernel, stride = kernel, padding = [0, 0, 0, 0] } = problem;
  const [images, channels, height, width] = inputShape;
  const [top, left, bottom, right] = padding;
  const extent = (size: number, axis: 0 | 1) => Math.floor((size - kernel[axis]) / stride[axis]) + 1;
  const output = [images, channels, extent(height + top + bottom, 0), extent(width + left + right, 1)];
  return single(kind === "max" ? "MaxPool" : "AveragePool", { input: inputShape }, output, {
    attributes: { kernel_shape: kernel, pads: padding, strides: stride },
  });
}

function resize2d(problem: ResizeProblem): Draft {
  checkChannelsFirst(problem, "onnxruntime");
  const { kind, inputShape, outputHeight, outputWidth } = problem;
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
