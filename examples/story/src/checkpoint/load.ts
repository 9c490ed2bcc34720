import {
  BackendError,
  type ComputeBackend,
  type DType,
  dtypeBytes,
  type FloatType,
  fromGguf,
  type GgufFormat,
  type Operand,
  openScope,
  type QuantizedBits,
  type Scope,
  withScope,
} from "@backplane/core";
import { BlockMatrix, DenseMatrix, type Matrix, moved } from "../matrix.js";
import type { Weights } from "../weights.js";
import { blocks, type Checkpoint, type StoredMatrix, type StoredType, storedBytes } from "./checkpoint.js";
import { type ByteSource, FileError } from "./file.js";
import { decodeQ6K } from "./q6-k.js";

/** Bits of the types that stay as they are on the device. */
const quantized: Readonly<Partial<Record<StoredType, QuantizedBits>>> = { Q8_0: 8, Q4_0: 4 };

/** How the others go to the device: in this type, from the bytes of the file or from what those decode to. */
const dense: Readonly<Record<Exclude<StoredType, GgufFormat>, DenseFormat>> = {
  F32: { dtype: "f32", decode: asTheyAre },
  F16: { dtype: "f16", decode: asTheyAre },
  BF16: { dtype: "bf16", decode: asTheyAre },
  // Its scales of 16 weights are too fine for `quantizedGemm`.
  Q6_K: { dtype: "f32", decode: decodeQ6K },
};

interface DenseFormat {
  readonly dtype: DType;
  readonly decode: (piece: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer> | Float32Array<ArrayBuffer>;
}

function asTheyAre(piece: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return piece;
}

/** Weights that are read at a time: whole blocks, and so many that all pieces of an upload are aligned. */
const PIECE = 2 ** 21;

/** Weights on the device, and the scope that frees them. */
export interface LoadedWeights {
  readonly weights: Weights;
  readonly scope: Scope;
}

export interface LoadOptions {
  /** Gets the share that is done; loading ends with what it throws. */
  readonly progress?: (fraction: number) => void;
  /** Whether a backend may round what weights of 4 and 8 bits are multiplied by. Default: false. */
  readonly mayRoundInputs?: boolean;
}

/** Moves the weights of a checkpoint to the device, piece by piece. Those of 4 and 8 bits stay so; others become `dtype`. */
export async function loadWeights(
  backend: ComputeBackend,
  file: ByteSource,
  checkpoint: Checkpoint,
  dtype: FloatType,
  { progress = () => {}, mayRoundInputs = false }: LoadOptions = {},
): Promise<LoadedWeights> {
  const scope = openScope(backend);
  const loader = new Loader(backend, scope, file, { dtype, mayRoundInputs }, (bytes) =>
    progress(bytes / weightBytes(checkpoint)),
  );
  try {
    const layers: Weights["layers"][number][] = [];
    for (const layer of checkpoint.layers)
      layers.push({
        attentionNorm: await loader.vector(layer.attentionNorm),
        queryKeyValue: await loader.matrix([layer.query, layer.key, layer.value]),
        attentionOutput: await loader.matrix([layer.attentionOutput]),
        feedForwardNorm: await loader.vector(layer.feedForwardNorm),
        gateUp: await loader.matrix([layer.gate, layer.up]),
        down: await loader.matrix([layer.down]),
      });
    const embedding = await loader.matrix([checkpoint.embedding]);
    const { classifier } = checkpoint;
    const weights = {
      ...{ layers, embedding, finalNorm: await loader.vector(checkpoint.finalNorm) },
      classifier: classifier === undefined ? embedding : await loader.matrix([classifier]),
    };
    return { weights, scope };
  } catch (error) {
    scope.dispose();
    if (error instanceof BackendError && error.code === "OUT_OF_MEMORY")
      throw new FileError(
        `It is too large for ${backend.capabilities.device.name}: its weights have ${weightBytes(checkpoint)} bytes, and ${error.message}.`,
      );
    throw error;
  }
}

/** Bytes of all weights in the file. */
export function weightBytes({ embedding, layers, finalNorm, classifier }: Checkpoint): number {
  const all = [embedding, finalNorm, ...(classifier === undefined ? [] : [classifier])];
  for (const layer of layers) all.push(...(Object.values(layer) as StoredMatrix[]));
  return all.reduce((sum, { type, rows, columns }) => sum + storedBytes(type, rows * columns), 0);
}

class Loader {
  readonly #backend: ComputeBackend;
  readonly #scope: Scope;
  readonly #file: ByteSource;
  readonly #dtype: FloatType;
  readonly #mayRoundInput: boolean;
  readonly #loaded: (bytes: number) => void;
  #bytes = 0;

  constructor(
    backend: ComputeBackend,
    scope: Scope,
    file: ByteSource,
    { dtype, mayRoundInputs }: { readonly dtype: FloatType; readonly mayRoundInputs: boolean },
    loaded: (bytes: number) => void,
  ) {
    this.#backend = backend;
    this.#scope = scope;
    this.#file = file;
    this.#dtype = dtype;
    this.#mayRoundInput = mayRoundInputs;
    this.#loaded = loaded;
  }

  async vector(stored: StoredMatrix): Promise<Operand> {
    return (await this.#dense([stored])).values;
  }

  /** The parts below one another, which have the same columns. */
  async matrix(parts: readonly StoredMatrix[]): Promise<Matrix> {
    const [{ type }] = parts as [StoredMatrix];
    const isOne = parts.every((part) => part.type === type);
    return type in quantized && isOne ? this.#blocks(this.#scope, parts) : this.#dense(parts);
  }

  async #dense(parts: readonly StoredMatrix[]): Promise<DenseMatrix> {
    const [{ columns }] = parts as [StoredMatrix];
    const rows = rowsOf(parts);
    const bytes = dtypeBytes[this.#dtype];
    const values = this.#scope.alloc(rows * columns * bytes, { zero: false });
    let place = 0;
    for (const part of parts) {
      const to = moved(values, place);
      if (part.type in quantized)
        await withScope(this.#backend, async (scope) => (await this.#blocks(scope, [part])).widen(to));
      else await this.#convert(part, to);
      place += part.rows * columns * bytes;
    }
    return new DenseMatrix(this.#backend, this.#dtype, rows, columns, values);
  }

  async #convert(part: StoredMatrix, to: Operand): Promise<void> {
    const { dtype, decode } = dense[part.type as keyof typeof dense];
    await this.#eachPiece(part, (piece, first, count) => {
      const output = moved(to, first * dtypeBytes[this.#dtype]);
      const values = decode(piece);
      if (dtype === this.#dtype) this.#backend.copyHtoD(output, values);
      else
        withScope(this.#backend, (scope) => {
          const input = scope.upload(values);
          this.#backend.copy({ shape: [count], dtype, outputDtype: this.#dtype, input, output });
        });
    });
  }

  async #blocks(scope: Scope, parts: readonly StoredMatrix[]): Promise<BlockMatrix> {
    const [{ columns, type }] = parts as [StoredMatrix];
    const rows = rowsOf(parts);
    const bits = quantized[type]!;
    const [blockWeights] = blocks[type];
    const bytesOf = (weights: number) => ({
      stored: (weights * bits) / 8,
      scales: (weights / blockWeights) * 2,
    });
    const all = bytesOf(rows * columns);
    const stored = scope.alloc(all.stored, { zero: false });
    const scales = scope.alloc(all.scales, { zero: false });
    let before = 0;
    for (const part of parts) {
      await this.#eachPiece(part, (piece, first) => {
        const matrix = fromGguf(type as GgufFormat, piece);
        const place = bytesOf(before + first);
        this.#backend.copyHtoD(moved(stored, place.stored), matrix.b);
        this.#backend.copyHtoD(moved(scales, place.scales), matrix.scales);
      });
      before += part.rows * columns;
    }
    const mayRoundInput = this.#mayRoundInput;
    return new BlockMatrix(this.#backend, this.#dtype, {
      ...{ rows, columns, bits, stored, scales },
      mayRoundInput,
    });
  }

  /** Calls back with some of the weights, as they are in the file. */
  async #eachPiece(
    { type, rows, columns, offset }: StoredMatrix,
    take: (piece: Uint8Array<ArrayBuffer>, first: number, count: number) => void,
  ): Promise<void> {
    const total = rows * columns;
    for (let first = 0; first < total; first += PIECE) {
      const count = Math.min(PIECE, total - first);
      const piece = await this.#file.read(offset + storedBytes(type, first), storedBytes(type, count));
      take(piece, first, count);
      this.#bytes += piece.length;
      this.#loaded(this.#bytes);
    }
  }
}

function rowsOf(parts: readonly StoredMatrix[]): number {
  return parts.reduce((sum, { rows }) => sum + rows, 0);
}
