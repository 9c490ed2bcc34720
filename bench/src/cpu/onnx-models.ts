import type { Inputs } from "../cases/case.js";
import { causalMask } from "./layout.js";
import { encodeModel, type Graph } from "./onnx.js";
import type {
  AttentionProblem,
  BatchedGemmProblem,
  BinaryProblem,
  ConvolutionProblem,
  GemmProblem,
  Problem,
  ReduceProblem,
  UnaryProblem,
} from "./problem.js";

/** One way to ask for a problem in ONNX. */
export interface Form {
  /** Operators, and the parts that belong to the model. */
  readonly how: string;
  readonly model: Uint8Array<ArrayBuffer>;
  /** Shapes of the inputs of each run, by the names of the case's arguments. */
  readonly inputs: Readonly<Record<string, readonly number[]>>;
  readonly output: readonly number[];
}

/** The name of the only output. */
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
  }
}

function form(how: string, graph: Omit<Graph, "outputs">, output: readonly number[]): Form {
  const model = encodeModel({ ...graph, outputs: { [outputName]: output } });
  return { how, model, inputs: graph.inputs, output };
}

/** B is a weight, as in a linear layer. */
function gemm({ m, n, k, transA, transB }: GemmProblem, { b }: Inputs): Form {
  const op = transA || transB ? "Gemm" : "MatMul";
  const attributes = op === "Gemm" ? { transA: Number(transA), transB: Number(transB) } : {};
  return form(
    `${op}, B in the model`,
    {
      nodes: [{ op, inputs: ["a", "b"], output: outputName, attributes }],
      inputs: { a: transA ? [k, m] : [m, k] },
      initializers: { b: { shape: transB ? [n, k] : [k, n], data: b!.toArray(n * k) } },
    },
    [m, n],
  );
}

function batchedGemm({ batch, m, n, k }: BatchedGemmProblem): Form {
  return form(
    "MatMul",
    {
      nodes: [{ op: "MatMul", inputs: ["a", "b"], output: outputName }],
      inputs: { a: [batch, m, k], b: [batch, k, n] },
    },
    [batch, m, n],
  );
}

function conv2d(
  { inputShape, filterShape, stride, padding, groups }: ConvolutionProblem,
  { filter }: Inputs,
): Form {
  const [filters, own, height, width] = filterShape;
  const [images, , rows, columns] = inputShape;
  const extent = (size: number, kernel: number) => Math.floor((size + 2 * padding - kernel) / stride) + 1;
  const attributes = {
    kernel_shape: [height, width],
    pads: [padding, padding, padding, padding],
    strides: [stride, stride],
    group: groups,
  };
  return form(
    "Conv, filters in the model",
    {
      nodes: [{ op: "Conv", inputs: ["input", "filter"], output: outputName, attributes }],
      inputs: { input: inputShape },
      initializers: {
        filter: { shape: filterShape, data: filter!.toArray(filters * own * height * width) },
      },
    },
    [images, filters, extent(rows, height), extent(columns, width)],
  );
}

function attention(problem: AttentionProblem): Form[] {
  const { batch, heads, kvHeads, queries, keys, headSize, causal } = problem;
  const inputs = {
    q: [batch, heads, queries, headSize],
    k: [batch, kvHeads, keys, headSize],
    v: [batch, kvHeads, keys, headSize],
  };
  const output = inputs.q;
  const operator = { op: "Attention", inputs: ["q", "k", "v"], output: outputName };
  const forms = [
    form(
      "Attention",
      { nodes: [{ ...operator, attributes: { is_causal: Number(causal) } }], inputs },
      output,
    ),
  ];
  // The written-out form has no grouped heads.
  if (kvHeads === heads) forms.push(writtenOut(problem, inputs, output));
  return forms;
}

/** Attention as exporters write it if there is no operator for it. */
function writtenOut(
  { queries, keys, headSize, causal }: AttentionProblem,
  inputs: Graph["inputs"],
  output: readonly number[],
): Form {
  const scale = { shape: [], data: Float32Array.of(1 / Math.sqrt(headSize)) };
  return form(
    `MatMul, Softmax, MatMul${causal ? ", mask in the model" : ""}`,
    {
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
      initializers: {
        scale,
        ...(causal ? { mask: { shape: [queries, keys], data: causalMask(queries, keys) } } : {}),
      },
    },
    output,
  );
}

function reduce({ kind, shape, axis }: ReduceProblem): Form {
  const axes = axis === "all" ? shape.map((_, i) => i) : [axis];
  const op = kind === "sum" ? "ReduceSum" : "ReduceMax";
  return form(
    op,
    {
      nodes: [{ op, inputs: ["input", "axes"], output: outputName, attributes: { keepdims: 0 } }],
      inputs: { input: shape },
      initializers: { axes: { shape: [axes.length], data: BigInt64Array.from(axes, BigInt) } },
    },
    shape.filter((_, i) => !axes.includes(i)),
  );
}

const unaryOperators = { exp: "Exp", tanh: "Tanh", relu: "Relu", gelu: "Gelu" } as const;

function unary({ kind, n }: UnaryProblem): Form {
  const op = unaryOperators[kind];
  return form(op, { nodes: [{ op, inputs: ["input"], output: outputName }], inputs: { input: [n] } }, [n]);
}

function binary({ kind, rows, columns, broadcast }: BinaryProblem): Form {
  const op = kind === "add" ? "Add" : "Mul";
  return form(
    op,
    {
      nodes: [{ op, inputs: ["a", "b"], output: outputName }],
      inputs: { a: [rows, columns], b: broadcast ? [columns] : [rows, columns] },
    },
    [rows, columns],
  );
}
