import type { Inputs } from "../cases/case.js";
import { causalMask } from "./layout.js";
import { type Graph, microsoft, type Node } from "./onnx.js";
import { type Draft, outputName, type Shape, type Shapes, single } from "./onnx-draft.js";
import type {
  AttentionProblem,
  BatchedGemmProblem,
  ConvolutionGradientProblem,
  ConvolutionProblem,
  GemmProblem,
  QuantizedGemmProblem,
} from "./problem.js";

/** B is a weight, as in a linear layer. */
export function gemm({ m, n, k, transA, transB }: GemmProblem, { b }: Inputs): Draft {
  const isGemm = transA || transB;
  return single(isGemm ? "Gemm" : "MatMul", { a: transA ? [k, m] : [m, k] }, [m, n], {
    attributes: isGemm ? { transA: Number(transA), transB: Number(transB) } : {},
    initializers: { b: { shape: transB ? [n, k] : [k, n], data: b!.toArray(n * k) } },
    note: "B in the model",
  });
}

export function batchedGemm({ batch, m, n, k }: BatchedGemmProblem): Draft {
  return single("MatMul", { a: [batch, m, k], b: [batch, k, n] }, [batch, m, n]);
}

export function conv2d(problem: ConvolutionProblem, inputs: Inputs): Draft {
  const { outputShape, ...model } = convolution(problem, inputs);
  return single("Conv", { input: problem.inputShape }, outputShape, model);
}

/** The shape that a convolution leaves, and what its operator in ONNX shares with its transpose. */
function convolution(
  { inputShape, filterShape, stride, padding, groups }: Omit<ConvolutionProblem, "operation">,
  { filter }: Inputs,
) {
  const [filters, own, height, width] = filterShape;
  const [images, , rows, columns] = inputShape;
  const extent = (size: number, kernel: number) => Math.floor((size + 2 * padding - kernel) / stride) + 1;
  return {
    outputShape: [images, filters, extent(rows, height), extent(columns, width)],
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
  };
}

export function attention(problem: AttentionProblem): Draft[] {
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

/** Computed in f32: no accuracy_level allows less. */
export function quantizedGemm({ m, n, k }: QuantizedGemmProblem, { b, scales }: Inputs): Draft {
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

/** What ONNX calls a transposed convolution. */
export function transposedConvolution(problem: ConvolutionGradientProblem, inputs: Inputs): Draft {
  const { outputShape, ...model } = convolution(problem, inputs);
  return single("ConvTranspose", { outputGradient: outputShape }, problem.inputShape, model);
}
