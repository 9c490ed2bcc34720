import { bfloat16FromBits, bfloat16ToBits, float16FromBits, float16ToBits } from "@backplane/core";
import { type StoredLayer, type StoredType, storedShapes } from "#src/checkpoint/checkpoint.js";
import { ropeFrequencies, type Shape } from "#src/shape.js";

/** Sizes of a model that was never trained. */
export const shape: Shape = {
  ...{ size: 64, hidden: 96, layers: 2, heads: 4, kvHeads: 2, headSize: 16 },
  ...{ vocabulary: 300, length: 40, epsilon: 1e-5, frequencies: ropeFrequencies(16, 10_000) },
};

export type LayerValues = Readonly<Record<keyof StoredLayer, Float64Array>>;

/** Weights in double precision. */
export interface Values {
  readonly embedding: Float64Array;
  readonly layers: readonly LayerValues[];
  readonly finalNorm: Float64Array;
  readonly classifier: Float64Array;
}

/** Numbers in [-scale, scale) that are the same in every run: a linear congruential generator. */
function numbers(count: number, seed: number, scale: number): Float64Array {
  let state = seed;
  return Float64Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.fround(scale * (state / 2 ** 31 - 1));
  });
}

/** Random weights; those of the classifier are the embedding. */
export function valuesOf(shape: Shape): Values {
  let seed = 1;
  const matrix = (rows: number, columns: number): Float64Array => {
    seed += 1;
    if (rows === 1) return numbers(columns, seed, 0.5).map((x) => Math.fround(1 + x));
    return numbers(rows * columns, seed, 2 / Math.sqrt(columns));
  };
  const embedding = matrix(shape.vocabulary, shape.size);
  const layers = Array.from(
    { length: shape.layers },
    () =>
      Object.fromEntries(
        Object.entries(storedShapes(shape)).map(([name, [rows, columns]]) => [name, matrix(rows, columns)]),
      ) as LayerValues,
  );
  return { embedding, layers, finalNorm: matrix(1, shape.size), classifier: embedding };
}

export const values: Values = valuesOf(shape);

const tiny = { shape, values };

/** A checkpoint of llama2.c. */
export function llama2cFile(): Uint8Array {
  const { size, hidden, layers, heads, kvHeads, headSize, vocabulary, length } = shape;
  const header = Int32Array.of(size, hidden, layers, heads, kvHeads, vocabulary, length);
  const all = (name: keyof StoredLayer) => values.layers.map((layer) => layer[name]);
  const parts = [
    values.embedding,
    ...(["attentionNorm", "query", "key", "value", "attentionOutput", "feedForwardNorm"] as const).flatMap(
      all,
    ),
    ...(["gate", "down", "up"] as const).flatMap(all),
    values.finalNorm,
    new Float64Array(length * headSize),
  ];
  return joined([bytesOf(header), ...parts.map((part) => bytesOf(Float32Array.from(part)))]);
}

/** The file `tokenizer.bin` of llama2.c for texts and their scores. */
export function llama2cTokenizerFile(
  pieces: readonly (readonly [text: string, score: number])[],
): Uint8Array {
  const parts = pieces.flatMap(([text, score]) => {
    const bytes = new TextEncoder().encode(text);
    return [bytesOf(Float32Array.of(score)), bytesOf(Int32Array.of(bytes.length)), bytes];
  });
  return joined([bytesOf(Int32Array.of(16)), ...parts]);
}

/** `<unk>`, start and end, the bytes, and then some texts: those that are made later have better scores. */
export const pieces: readonly (readonly [text: string, score: number])[] = (() => {
  const words = [
    ..." abcdehlnorstuwy",
    "é",
    " t",
    "he",
    " the",
    "an",
    " an",
    "and",
    " and",
    "th",
    "t h",
    " h",
  ];
  const listed: (readonly [string, number])[] = ["<unk>", "\n<s>\n", "\n</s>\n"].map((text) => [text, 0]);
  for (let byte = 0; byte < 256; byte++)
    listed.push([`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`, 0]);
  for (const [i, word] of words.entries()) listed.push([word, word.length === 1 ? -1000 : -i]);
  while (listed.length < shape.vocabulary) listed.push([`~${listed.length}~`, -5000]);
  return listed;
})();

interface Encoding {
  /** The number of the type in the enumeration `ggml_type`. */
  readonly type: number;
  readonly encode: (weights: Float64Array) => Uint8Array;
  /** What the encoded weights stand for. */
  readonly rounded: (weights: Float64Array) => Float64Array;
}

function encodingOf16(
  type: number,
  toBits: (value: number) => number,
  fromBits: (bits: number) => number,
): Encoding {
  return {
    type,
    encode: (weights) => bytesOf(Uint16Array.from(weights, toBits)),
    rounded: (weights) => weights.map((weight) => fromBits(toBits(weight))),
  };
}

/** Blocks of 32 weights around a middle, with a scale in f16. */
function encodingOfBlocks(type: number, largest: number, pack: (steps: Int8Array) => Uint8Array): Encoding {
  const blocksOf = (weights: Float64Array) =>
    Array.from({ length: weights.length / 32 }, (_, i) => {
      const block = weights.subarray(32 * i, 32 * i + 32);
      const scale = float16FromBits(float16ToBits(Math.max(...block.map(Math.abs)) / largest));
      const steps = Int8Array.from(block, (weight) => {
        const step = Math.round(weight / scale);
        return Math.max(-largest - 1, Math.min(largest, step));
      });
      return { scale, steps };
    });
  return {
    type,
    encode: (weights) =>
      joined(
        blocksOf(weights).flatMap(({ scale, steps }) => [
          bytesOf(Uint16Array.of(float16ToBits(scale))),
          pack(steps),
        ]),
      ),
    rounded: (weights) =>
      Float64Array.from(
        blocksOf(weights).flatMap(({ scale, steps }) => Array.from(steps, (step) => step * scale)),
      ),
  };
}

/** Numbers of 6 bits: `steps` from -32 on, of 16 weights to a scale. */
const encodingOfQ6K: Encoding = (() => {
  const blocksOf = (weights: Float64Array) =>
    Array.from({ length: weights.length / 256 }, (_, i) => {
      const block = weights.subarray(256 * i, 256 * i + 256);
      const largestOf = (part: Float64Array) => Math.max(...part.map(Math.abs));
      const scale = float16FromBits(float16ToBits(largestOf(block) / 31 / 127));
      // Every other scale is negative: they are signed.
      const scales = Int8Array.from({ length: 16 }, (_, j) => {
        const part = block.subarray(16 * j, 16 * j + 16);
        return (j % 2 === 0 ? 1 : -1) * Math.max(1, Math.min(127, Math.round(largestOf(part) / 31 / scale)));
      });
      const steps = Int8Array.from(block, (weight, j) =>
        Math.max(-32, Math.min(31, Math.round(weight / scale / scales[j >> 4]!))),
      );
      return { scale, scales, steps };
    });
  return {
    type: 14,
    encode: (weights) =>
      joined(
        blocksOf(weights).flatMap(({ scale, scales, steps }) => {
          const low = new Uint8Array(128);
          const high = new Uint8Array(64);
          for (const [j, step] of steps.entries()) {
            const [group, quarter, place] = [j >> 7, (j >> 5) & 3, j & 31];
            low[64 * group + 32 * (quarter & 1) + place]! |= ((step + 32) & 15) << (4 * (quarter >> 1));
            high[32 * group + place]! |= ((step + 32) >> 4) << (2 * quarter);
          }
          return [low, high, bytesOf(scales), bytesOf(Uint16Array.of(float16ToBits(scale)))];
        }),
      ),
    rounded: (weights) =>
      Float64Array.from(
        blocksOf(weights).flatMap(({ scale, scales, steps }) =>
          Array.from(steps, (step, j) => step * scales[j >> 4]! * scale),
        ),
      ),
  };
})();

const encodings: Readonly<Record<StoredType, Encoding>> = {
  F32: {
    type: 0,
    encode: (weights) => bytesOf(Float32Array.from(weights)),
    rounded: (weights) => weights,
  },
  F16: encodingOf16(1, float16ToBits, float16FromBits),
  BF16: encodingOf16(30, bfloat16ToBits, bfloat16FromBits),
  Q8_0: encodingOfBlocks(8, 127, (steps) => new Uint8Array(steps.buffer)),
  Q4_0: encodingOfBlocks(2, 7, (steps) =>
    Uint8Array.from({ length: 16 }, (_, i) => (steps[i]! + 8) | ((steps[i + 16]! + 8) << 4)),
  ),
  Q6_K: encodingOfQ6K,
};

/** The weights as a file of a type has them; norms are always in f32. The classifier may have a type of its own. */
export function roundedValues(type: StoredType, of: Values = values, classifier?: StoredType): Values {
  const { rounded } = encodings[type];
  const embedding = rounded(of.embedding);
  return {
    ...of,
    ...{
      embedding,
      classifier: classifier === undefined ? embedding : encodings[classifier].rounded(of.classifier),
    },
    layers: of.layers.map(
      (layer) =>
        Object.fromEntries(
          Object.entries(layer).map(([name, weights]) => [
            name,
            name.endsWith("Norm") ? weights : rounded(weights),
          ]),
        ) as LayerValues,
    ),
  };
}

type Metadata = readonly (readonly [
  key: string,
  type: "u32" | "f32" | "string" | "texts" | "floats" | "ints",
  value: unknown,
])[];

const ggufNames: Readonly<Record<keyof StoredLayer, string>> = {
  ...{ attentionNorm: "attn_norm", query: "attn_q", key: "attn_k", value: "attn_v" },
  ...{
    attentionOutput: "attn_output",
    feedForwardNorm: "ffn_norm",
    gate: "ffn_gate",
    up: "ffn_up",
    down: "ffn_down",
  },
};

const ggufMetadata = (shape: Shape): Metadata => [
  ["general.architecture", "string", "llama"],
  ["llama.embedding_length", "u32", shape.size],
  ["llama.feed_forward_length", "u32", shape.hidden],
  ["llama.block_count", "u32", shape.layers],
  ["llama.attention.head_count", "u32", shape.heads],
  ["llama.attention.head_count_kv", "u32", shape.kvHeads],
  ["llama.context_length", "u32", shape.length],
  ["llama.attention.layer_norm_rms_epsilon", "f32", shape.epsilon],
  ["tokenizer.ggml.model", "string", "llama"],
  ["tokenizer.ggml.tokens", "texts", pieces.map(([text]) => text.replaceAll(" ", "▁"))],
  ["tokenizer.ggml.scores", "floats", pieces.map(([, score]) => score)],
  ["tokenizer.ggml.token_type", "ints", pieces.map((_, i) => typeOf(i))],
  ["tokenizer.ggml.bos_token_id", "u32", 1],
  ["tokenizer.ggml.eos_token_id", "u32", 2],
];

/** Unknown, control, byte, normal. */
function typeOf(token: number): number {
  if (token < 3) return token === 0 ? 2 : 3;
  return token < 259 ? 6 : 1;
}

export interface GgufOptions {
  /** Replaces parts, to see whether that is noticed. */
  readonly metadata?: Metadata;
  readonly extra?: string;
  readonly typeNumber?: number;
  /** The type of a classifier of its own. */
  readonly classifier?: StoredType;
  /** Another model than the tiny one. */
  readonly model?: { readonly shape: Shape; readonly values: Values };
}

/** A GGUF file with all matrices in one type. */
export function ggufFile(type: StoredType, options: GgufOptions = {}): Uint8Array {
  const { shape, values } = options.model ?? tiny;
  const tensors: { name: string; extents: number[]; type: number; bytes: Uint8Array }[] = [];
  const add = (name: string, rows: number, columns: number, weights: Float64Array, as = type) => {
    const encoding = encodings[rows === 1 ? "F32" : as];
    const extents = rows === 1 ? [columns] : [columns, rows];
    const number = rows > 1 ? (options.typeNumber ?? encoding.type) : encoding.type;
    tensors.push({ name: `${name}.weight`, extents, type: number, bytes: encoding.encode(weights) });
  };
  add("token_embd", shape.vocabulary, shape.size, values.embedding);
  const shapes = Object.entries(storedShapes(shape)) as [keyof StoredLayer, readonly [number, number]][];
  for (const [i, layer] of values.layers.entries())
    for (const [name, [rows, columns]] of shapes)
      add(`blk.${i}.${ggufNames[name]}`, rows, columns, layer[name]);
  add("output_norm", 1, shape.size, values.finalNorm);
  if (options.classifier !== undefined)
    add("output", shape.vocabulary, shape.size, values.classifier, options.classifier);
  if (options.extra !== undefined) add(options.extra, 1, shape.size, values.finalNorm);

  const metadata = [...ggufMetadata(shape), ...(options.metadata ?? [])];
  const entries: Uint8Array[] = [
    new TextEncoder().encode("GGUF"),
    ...[u32(3), u64(tensors.length), u64(metadata.length)],
    ...metadata.flatMap(([key, kind, value]) => [text(key), ...encodedValue(kind, value)]),
  ];
  let place = 0;
  for (const { name, extents, type: number, bytes } of tensors) {
    entries.push(text(name), u32(extents.length), ...extents.map(u64), u32(number), u64(place));
    place += Math.ceil(bytes.length / 32) * 32;
  }
  return joined([padded(joined(entries)), ...tensors.map(({ bytes }) => padded(bytes))]);
}

function encodedValue(kind: Metadata[number][1], value: unknown): Uint8Array[] {
  switch (kind) {
    case "u32":
      return [u32(4), u32(value as number)];
    case "f32":
      return [u32(6), bytesOf(Float32Array.of(value as number))];
    case "string":
      return [u32(8), text(value as string)];
    case "texts":
      return [u32(9), u32(8), u64((value as string[]).length), ...(value as string[]).map(text)];
    case "floats":
      return [u32(9), u32(6), u64((value as number[]).length), bytesOf(Float32Array.from(value as number[]))];
    case "ints":
      return [u32(9), u32(5), u64((value as number[]).length), bytesOf(Int32Array.from(value as number[]))];
  }
}

const u32 = (value: number) => bytesOf(Uint32Array.of(value));
const u64 = (value: number) => bytesOf(BigUint64Array.of(BigInt(value)));

function text(value: string): Uint8Array {
  const bytes = new TextEncoder().encode(value);
  return joined([u64(bytes.length), bytes]);
}

function padded(bytes: Uint8Array): Uint8Array {
  const result = new Uint8Array(Math.ceil(bytes.length / 32) * 32);
  result.set(bytes);
  return result;
}

function bytesOf(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const result = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) {
    result.set(part, place);
    place += part.length;
  }
  return result;
}

/** A file of the format safetensors with this header, and nothing behind it. */
export function safetensorsFile(header: unknown): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(8 + text.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  return bytes;
}
