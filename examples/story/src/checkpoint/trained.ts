import { faultOf, type Shape } from "../shape.js";
import { ByteTokenizer } from "../tokenizer/bytes.js";
import { type Checkpoint, type StoredLayer, type StoredMatrix, storedShapes } from "./checkpoint.js";
import { type ByteSource, FileError } from "./file.js";
import { jsonFrom } from "./json.js";
import { arrayOf, readSafetensorsHeader } from "./safetensors.js";

/** The key of the metadata with the sizes of the model, as JSON. */
export const SHAPE_KEY = "shape";

/** The sizes of a model that this program has trained, from the metadata of its file. */
export function shapeFrom(text: string | undefined): Shape {
  if (text === undefined)
    throw new FileError("It is a safetensors file, but none of a model that this program has trained.");
  return jsonFrom<Shape>(text, (shape) => faultOf(shape) ?? faultOfFrequencies(shape));
}

function faultOfFrequencies({ frequencies, headSize }: Shape): string | undefined {
  const isComplete = Array.isArray(frequencies) && 2 * frequencies.length <= headSize;
  if (isComplete && frequencies.every(Number.isFinite)) return undefined;
  return `frequencies are no numbers for at most ${headSize / 2} pairs`;
}

/** Reads a model that this program has trained: `Parameters` in a safetensors file. */
export async function readTrained(file: ByteSource): Promise<Checkpoint> {
  const header = await readSafetensorsHeader(file);
  const shape = shapeFrom(header.metadata[SHAPE_KEY]);
  const { vocabulary, size } = shape;
  const shapes = storedShapes(shape);
  /** Matrices that lie below one another in one array. */
  const parts = <Name extends keyof StoredLayer>(
    name: string,
    ...names: Name[]
  ): Record<Name, StoredMatrix> => {
    const rows = names.reduce((sum, part) => sum + shapes[part][0], 0);
    const [, columns] = shapes[names[0]!];
    const isVector = names[0]!.endsWith("Norm");
    let { offset } = arrayOf(header.arrays, name, isVector ? [columns] : [rows, columns]);
    const made = names.map((part) => {
      const matrix: StoredMatrix = { type: "F32", rows: shapes[part][0], columns, offset };
      offset += 4 * matrix.rows * columns;
      return [part, matrix] as const;
    });
    return Object.fromEntries(made) as Record<Name, StoredMatrix>;
  };
  const layerAt = (i: number): StoredLayer => ({
    ...parts(`layers.${i}.attentionNorm`, "attentionNorm"),
    ...parts(`layers.${i}.queryKeyValue`, "query", "key", "value"),
    ...parts(`layers.${i}.attentionOutput`, "attentionOutput"),
    ...parts(`layers.${i}.feedForwardNorm`, "feedForwardNorm"),
    ...parts(`layers.${i}.gateUp`, "gate", "up"),
    ...parts(`layers.${i}.down`, "down"),
  });
  const embedding = arrayOf(header.arrays, "embedding", [vocabulary, size]);
  const finalNorm = arrayOf(header.arrays, "finalNorm", [size]);
  return {
    shape,
    embedding: { type: "F32", rows: vocabulary, columns: size, offset: embedding.offset },
    layers: Array.from({ length: shape.layers }, (_, i) => layerAt(i)),
    finalNorm: { type: "F32", rows: 1, columns: size, offset: finalNorm.offset },
    ...{ classifier: undefined, tokenizer: new ByteTokenizer() },
  };
}
