import { faultOf, ropeFrequencies, type Shape } from "../shape.js";
import {
  type Checkpoint,
  type StoredLayer,
  type StoredMatrix,
  storedBytes,
  storedShapes,
} from "./checkpoint.js";
import { type ByteSource, FileError } from "./file.js";

/** Seven whole numbers of 32 bits. */
const HEADER_BYTES = 28;
/** The first bytes of the later versions of the format, as a number: "ak42". */
const laterMagic = 0x616b3432;

/** The order of the arrays in a file. Each one holds all layers. */
const order = [
  "attentionNorm",
  "query",
  "key",
  "value",
  "attentionOutput",
  "feedForwardNorm",
  "gate",
  "down",
  "up",
] as const satisfies readonly (keyof StoredLayer)[];

/**
 * Reads a checkpoint of llama2.c (https://github.com/karpathy/llama2.c, `run.c`), version 0: a header, then the arrays in
 * f32 of the embedding, of the layers and of the last norm, tables of angles that nobody reads any more, and the
 * classifier unless the embedding is that too.
 */
export async function readLlama2c(file: ByteSource): Promise<Checkpoint> {
  if (file.size < HEADER_BYTES) throw new FileError(`It has ${file.size} bytes, which is no model.`);
  const header = new DataView((await file.read(0, HEADER_BYTES)).buffer);
  if (header.getUint32(0, true) === laterMagic)
    throw new FileError(
      "It is a checkpoint of llama2.c of version 1 or 2; this program reads version 0 and GGUF.",
    );
  const [size, hidden, layers, heads, kvHeads, words, length] = Array.from({ length: 7 }, (_, i) =>
    header.getInt32(4 * i, true),
  ) as [number, number, number, number, number, number, number];
  // A negative number of words means that there is a classifier.
  const vocabulary = Math.abs(words);
  const headSize = size / heads;
  const sizes = { size, hidden, layers, heads, kvHeads, headSize, vocabulary, length, epsilon: 1e-5 };
  const fault = faultOf(sizes);
  if (fault !== undefined)
    throw new FileError(`It is neither a GGUF file nor a checkpoint of llama2.c: as the latter, ${fault}.`);
  const shapes = storedShapes(sizes);
  const layerWeights = order.reduce((sum, name) => sum + shapes[name][0] * shapes[name][1], 0);
  const vocabularies = words < 0 ? 2 : 1;
  const weights = vocabularies * vocabulary * size + layers * layerWeights + size + length * headSize;
  const fileBytes = HEADER_BYTES + storedBytes("F32", weights);
  // Before a list is made of each layer, or of each pair: any file may turn out to say that it has billions of them.
  if (fileBytes !== file.size)
    throw new FileError(
      `It has ${file.size} bytes; as a checkpoint of llama2.c with its header it has ${fileBytes}${file.size < fileBytes ? ": it is cut off" : ""}.`,
    );

  const shape: Shape = { ...sizes, frequencies: ropeFrequencies(headSize, 10_000) };

  let offset = HEADER_BYTES;
  const next = (rows: number, columns: number): StoredMatrix => {
    const matrix: StoredMatrix = { type: "F32", rows, columns, offset };
    offset += storedBytes("F32", rows * columns);
    return matrix;
  };
  const embedding = next(vocabulary, size);
  const arrays = Object.fromEntries(
    order.map((name) => [name, Array.from({ length: layers }, () => next(...shapes[name]))]),
  ) as Record<keyof StoredLayer, StoredMatrix[]>;
  const finalNorm = next(1, size);
  next(length, headSize);
  const classifier = words < 0 ? next(vocabulary, size) : undefined;
  const layerAt = (i: number) =>
    Object.fromEntries(order.map((name) => [name, arrays[name][i]])) as unknown as StoredLayer;
  return {
    ...{ shape, embedding, finalNorm, classifier, tokenizer: undefined },
    layers: Array.from({ length: layers }, (_, i) => layerAt(i)),
  };
}
