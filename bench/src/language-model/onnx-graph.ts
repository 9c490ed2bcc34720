import { decodeFloat16, encodeFloat16, type FloatType } from "@backplane/core";
import { BLOCK, type Shape } from "@backplane/example-story";
import { type ElementType, type Graph, type Initializer, microsoft, type Node } from "../cpu/onnx.js";
import { type HostMatrix, type HostWeights, reordered, rowsOf, widened } from "./weights.js";

export interface StepGraph extends Graph {
  readonly types: Readonly<Record<string, ElementType>>;
}

export interface StepOptions {
  /** In which it computes. */
  readonly dtype: FloatType;
  /** Places of the cache. */
  readonly room: number;
  /**
   * Whether the number of places that attention looks at is part of the model, as a captured graph wants it: then it is all of
   * them, and `seqlens` hides those behind the token.
   */
  readonly fixedReach: boolean;
  readonly products: Products;
}

/**
 * The operator that multiplies by weights: `MatMulNBits` by the stored ones, at a level of accuracy (0: its default, 4: A may be
 * rounded to 8 bits), or `MatMul` by the same weights in the type of the model.
 */
export type Products =
  | { readonly op: "MatMulNBits"; readonly accuracyLevel: number }
  | { readonly op: "MatMul" };

/** Inputs that differ from one token to the next. */
export const stepInputs = { token: "token", place: "place", reach: "reach" } as const;
export const stepOutputs = { next: "next", logits: "logits" } as const;

/** The names of the cache of each layer: before and after the pass, which are the same memory. */
export function cacheNames(layers: number): { readonly past: string; readonly present: string }[] {
  return Array.from({ length: layers }, (_, i) => ["key", "value"].map((kind) => `${kind} ${i}`))
    .flat()
    .map((name) => ({ past: `past ${name}`, present: `present ${name}` }));
}

/**
 * One step of a transformer of the llama architecture with quantized weights, by the operators that exporters of language
 * models write for onnxruntime: products of `MatMulNBits`, `GroupQueryAttention` with its cache and its rotary positions, residual sums
 * and norms in one. The likeliest token comes out.
 */
export function stepGraph(
  shape: Shape,
  weights: HostWeights,
  { dtype, room, fixedReach, products }: StepOptions,
): StepGraph {
  const { size, hidden, layers, heads, kvHeads, headSize, vocabulary, epsilon } = shape;
  const nodes: Node[] = [];
  const initializers: Record<string, Initializer> = {};
  const type = dtype === "f16" ? "float16" : "float32";
  const vector = (name: string, numbers: Float32Array<ArrayBuffer>, shape = [numbers.length]) => {
    initializers[name] = { shape, data: dtype === "f16" ? encodeFloat16(numbers) : numbers };
    return name;
  };
  const add = (
    op: string,
    inputs: readonly string[],
    output: string | readonly string[],
    more: Partial<Node> = {},
  ) => {
    nodes.push({ op, inputs, output, ...more });
    return [output].flat()[0]!;
  };
  const product = (name: string, input: string, matrix: HostMatrix, output = name) => {
    const { rows, columns, bits, stored, scales } = matrix;
    if (products.op === "MatMul")
      return add("MatMul", [input, vector(`${name} weights`, columnsOf(matrix), [columns, rows])], output);
    const blocks = columns / BLOCK;
    initializers[`${name} numbers`] = { shape: [rows, blocks, (BLOCK * bits) / 8], data: stored };
    initializers[`${name} scales`] = {
      shape: [rows * blocks],
      data: dtype === "f16" ? scales : decodeFloat16(scales),
    };
    return add("MatMulNBits", [input, `${name} numbers`, `${name} scales`], output, {
      domain: microsoft,
      attributes: {
        ...{ K: columns, N: rows, bits, block_size: BLOCK },
        ...(products.accuracyLevel === 0 ? {} : { accuracy_level: products.accuracyLevel }),
      },
    });
  };
  const norms = { epsilon: { float: epsilon } };

  const angles = Array.from({ length: room }, (_, at) => shape.frequencies.map((turn) => at * turn)).flat();
  const table = [room, headSize / 2];
  const cos = vector("cos", Float32Array.from(angles, Math.cos), table);
  const sin = vector("sin", Float32Array.from(angles, Math.sin), table);
  if (fixedReach) initializers[stepInputs.reach] = { shape: [1], data: Int32Array.of(room) };

  let stream = add(
    "Gather",
    [vector("embedding", widened(weights.embedding), [vocabulary, size]), stepInputs.token],
    "stream",
  );
  let normalized = add(
    "SimplifiedLayerNormalization",
    [stream, vector("norm 0", weights.layers[0]!.attentionNorm)],
    "normalized",
    { attributes: { ...norms, axis: -1 } },
  );
  /** stream += more; normalized = its norm */
  const addAndNormalize = (name: string, more: string, weight: Float32Array<ArrayBuffer>) => {
    const outputs = [`${name} normalized`, "", "", `${name} stream`];
    normalized = add(
      "SkipSimplifiedLayerNormalization",
      [stream, more, vector(`${name} norm`, weight)],
      outputs,
      {
        ...{ domain: microsoft, attributes: norms },
      },
    );
    stream = outputs[3]!;
  };
  const caches = cacheNames(layers);
  const order = rowsByHalves(shape);
  weights.layers.forEach((layer, i) => {
    const packed = product(`${i} query, key, value`, normalized, reordered(layer.queryKeyValue, order));
    const [keys, values] = [caches[2 * i]!, caches[2 * i + 1]!];
    const attended = add(
      "GroupQueryAttention",
      [packed, "", "", keys.past, values.past, stepInputs.place, stepInputs.reach, cos, sin],
      [`${i} attended`, keys.present, values.present],
      {
        domain: microsoft,
        attributes: { num_heads: heads, kv_num_heads: kvHeads, do_rotary: 1 },
      },
    );
    addAndNormalize(
      `${i} attention`,
      product(`${i} output`, attended, layer.attentionOutput),
      layer.feedForwardNorm,
    );
    const gate = product(`${i} gate`, normalized, rowsOf(layer.gateUp, 0, hidden));
    const up = product(`${i} up`, normalized, rowsOf(layer.gateUp, hidden, hidden));
    const slope = add("Sigmoid", [gate], `${i} slope`);
    const silu = add("Mul", [gate, slope], `${i} silu`);
    const gated = add("Mul", [silu, up], `${i} gated`);
    const next = weights.layers[i + 1]?.attentionNorm ?? weights.finalNorm;
    addAndNormalize(`${i} feed-forward`, product(`${i} down`, gated, layer.down), next);
  });
  product("classifier", normalized, weights.classifier, stepOutputs.logits);
  add("ArgMax", [stepOutputs.logits], stepOutputs.next, { attributes: { axis: -1, keepdims: 0 } });

  const cache = [1, kvHeads, room, headSize];
  const named = (names: readonly string[], shape: readonly number[]) =>
    Object.fromEntries(names.map((name) => [name, shape]));
  const halves = caches.flatMap(({ past, present }) => [past, present]);
  return {
    nodes,
    initializers,
    inputs: {
      ...named([stepInputs.token], [1, 1]),
      ...named([stepInputs.place], [1]),
      ...(fixedReach ? {} : named([stepInputs.reach], [1])),
      ...named(
        caches.map(({ past }) => past),
        cache,
      ),
    },
    outputs: {
      ...named([stepOutputs.next], [1, 1]),
      ...named([stepOutputs.logits], [1, 1, vocabulary]),
      ...named(
        caches.map(({ present }) => present),
        cache,
      ),
    },
    types: {
      ...{ [stepInputs.token]: "int64", [stepInputs.place]: "int32", [stepInputs.reach]: "int32" },
      ...{ [stepOutputs.next]: "int64", [stepOutputs.logits]: type },
      ...Object.fromEntries(halves.map((name) => [name, type])),
    },
  };
}

/**
 * Pairs that turn are neighbours in ours, and element i of each half of a head in exported models: the rows of queries and
 * keys, which are multiplied with one another only, are in another order.
 */
function rowsByHalves({ heads, kvHeads, headSize }: Shape): number[] {
  const half = headSize / 2;
  return Array.from({ length: (heads + 2 * kvHeads) * headSize }, (_, row) => {
    const place = row % headSize;
    if (row >= (heads + kvHeads) * headSize) return row;
    return row - place + (place < half ? 2 * place : 2 * (place - half) + 1);
  });
}

/** All numbers of a matrix, column by column. */
function columnsOf(matrix: HostMatrix): Float32Array<ArrayBuffer> {
  const { rows, columns } = matrix;
  const numbers = widened(matrix);
  const result = new Float32Array(numbers.length);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      result[column * rows + row] = numbers[row * columns + column]!;
  return result;
}
