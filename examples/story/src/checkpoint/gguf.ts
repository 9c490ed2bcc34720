import { faultOf, ropeFrequencies, type Shape } from "../shape.js";
import { tokenizerOf } from "../tokenizer/gguf.js";
import {
  blocks,
  type Checkpoint,
  type StoredLayer,
  type StoredMatrix,
  type StoredType,
  storedBytes,
  storedShapes,
} from "./checkpoint.js";
import { type ByteSource, FileError } from "./file.js";
import { type GgufHeader, readGgufHeader } from "./gguf-header.js";

/** Types of tensors by their numbers in the enumeration `ggml_type`. */
const types: Readonly<Record<number, StoredType>> = {
  ...{ 0: "F32", 1: "F16", 2: "Q4_0", 8: "Q8_0", 14: "Q6_K", 30: "BF16" },
};

/** Names of types that are met in the wild and not read here. */
const otherTypes: Readonly<Record<number, string>> = {
  ...{
    3: "Q4_1",
    6: "Q5_0",
    7: "Q5_1",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
  },
  ...{ 20: "IQ4_NL", 23: "IQ4_XS", 39: "MXFP4" },
};

/** What the tensors of a layer are called, after `blk.N.`. */
const layerNames: Readonly<Record<keyof StoredLayer, string>> = {
  attentionNorm: "attn_norm.weight",
  query: "attn_q.weight",
  key: "attn_k.weight",
  value: "attn_v.weight",
  attentionOutput: "attn_output.weight",
  feedForwardNorm: "ffn_norm.weight",
  gate: "ffn_gate.weight",
  up: "ffn_up.weight",
  down: "ffn_down.weight",
};

/** Reads a GGUF file of the llama family. */
export async function readGguf(file: ByteSource): Promise<Checkpoint> {
  const header = await readGgufHeader(file);
  const used = new Set<string>();
  const sizes = sizesOf(header);
  const matrix = (name: string, rows: number, columns: number): StoredMatrix => {
    used.add(name);
    return matrixOf(file, header, name, rows, columns);
  };
  const { vocabulary, size, layers } = sizes;
  const embedding = matrix("token_embd.weight", vocabulary, size);
  const shapes = Object.entries(storedShapes(sizes)) as [keyof StoredLayer, readonly [number, number]][];
  const layerAt = (i: number) =>
    Object.fromEntries(
      shapes.map(([name, [rows, columns]]) => [name, matrix(`blk.${i}.${layerNames[name]}`, rows, columns)]),
    ) as unknown as StoredLayer;
  const storedLayers = Array.from({ length: layers }, (_, i) => layerAt(i));
  const finalNorm = matrix("output_norm.weight", 1, size);
  const classifier = header.tensors.has("output.weight")
    ? matrix("output.weight", vocabulary, size)
    : undefined;
  const frequencies = await frequenciesOf(file, header, sizes, matrix);
  for (const name of header.tensors.keys())
    if (!used.has(name))
      throw new FileError(`It has a tensor ${name}, which is no part of the models that this program knows.`);
  return {
    ...{ shape: { ...sizes, frequencies }, embedding, layers: storedLayers, finalNorm, classifier },
    tokenizer: tokenizerOf(header.metadata),
  };
}

function sizesOf({ metadata, tensors }: GgufHeader): Omit<Shape, "frequencies"> {
  const architecture = metadata.get("general.architecture");
  if (architecture !== "llama")
    throw new FileError(`Its architecture is ${String(architecture)}; this program knows llama.`);
  const number = (key: string, otherwise?: number): number => {
    const value = metadata.get(`llama.${key}`) ?? otherwise;
    if (typeof value !== "number" && typeof value !== "bigint")
      throw new FileError(`Its header has no number llama.${key}.`);
    return Number(value);
  };
  const experts = number("expert_count", 0);
  if (experts > 0)
    throw new FileError(`It is a mixture of ${experts} experts, which this program does not know.`);
  const size = number("embedding_length");
  const heads = number("attention.head_count");
  const sizes = {
    size,
    hidden: number("feed_forward_length"),
    layers: number("block_count"),
    heads,
    kvHeads: number("attention.head_count_kv", heads),
    headSize: number("attention.key_length", size / heads),
    vocabulary: tensors.get("token_embd.weight")?.extents[1] ?? number("vocab_size"),
    length: number("context_length"),
    epsilon: number("attention.layer_norm_rms_epsilon"),
  };
  const fault = faultOf(sizes);
  if (fault !== undefined) throw new FileError(`Its header makes no sense: ${fault}.`);
  return sizes;
}

/** The turns of the pairs, which a list of divisors or a factor may slow down for texts longer than in training. */
async function frequenciesOf(
  file: ByteSource,
  { metadata, tensors }: GgufHeader,
  { headSize }: Omit<Shape, "frequencies">,
  matrix: (name: string, rows: number, columns: number) => StoredMatrix,
): Promise<number[]> {
  const rotated = Number(metadata.get("llama.rope.dimension_count") ?? headSize);
  if (!(rotated >= 2 && rotated <= headSize && rotated % 2 === 0))
    throw new FileError(`Its header makes no sense: ${rotated} of ${headSize} elements of a head turn.`);
  const scaling = metadata.get("llama.rope.scaling.type") ?? "none";
  if (scaling !== "none" && scaling !== "linear")
    throw new FileError(`Its positions are scaled by ${String(scaling)}; this program knows linear.`);
  const positive = (key: string, otherwise: number): number => {
    const value = metadata.get(key) ?? otherwise;
    if (Number(value) > 0 && Number.isFinite(Number(value))) return Number(value);
    throw new FileError(`Its header makes no sense: ${key} is ${String(value)}.`);
  };
  const factor = scaling === "linear" ? positive("llama.rope.scaling.factor", 1) : 1;
  const base = positive("llama.rope.freq_base", 10_000);
  let frequencies = ropeFrequencies(rotated, base).map((turn) => turn / factor);
  if (tensors.has("rope_freqs.weight")) {
    const { type, columns, offset } = matrix("rope_freqs.weight", 1, rotated / 2);
    if (type !== "F32") throw new FileError(`Its rope_freqs.weight is of type ${type}; needed: F32.`);
    const divisors = new Float32Array((await file.read(offset, 4 * columns)).buffer);
    frequencies = frequencies.map((turn, i) => turn / divisors[i]!);
    if (!frequencies.every(Number.isFinite))
      throw new FileError("Its rope_freqs.weight has numbers that nothing can be divided by.");
  }
  return frequencies;
}

function matrixOf(
  file: ByteSource,
  { tensors }: GgufHeader,
  name: string,
  rows: number,
  columns: number,
): StoredMatrix {
  const entry = tensors.get(name);
  if (entry === undefined) throw new FileError(`It has no tensor ${name}.`);
  const [inner, ...outer] = entry.extents;
  const found = outer.reduce((product, extent) => product * extent, 1);
  if (inner !== columns || found !== rows)
    throw new FileError(`${name} has extents [${entry.extents.join(", ")}]; needed: [${columns}, ${rows}].`);
  const type = types[entry.type];
  if (type === undefined)
    throw new FileError(
      `${name} is of type ${otherTypes[entry.type] ?? `number ${entry.type}`}; this program reads ${Object.values(types).join(", ")}.`,
    );
  if (columns % blocks[type][0] !== 0)
    throw new FileError(`${name} has rows of ${columns} weights, which are no whole blocks of ${type}.`);
  const end = entry.offset + storedBytes(type, rows * columns);
  if (end > file.size)
    throw new FileError(
      `It is cut off: ${name} should end after ${end} bytes, and the file after ${file.size}.`,
    );
  return { type, rows, columns, offset: entry.offset };
}
