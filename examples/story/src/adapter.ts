import {
  type ComputeBackend,
  dtypeBytes,
  type FloatType,
  type Operand,
  openScope,
  type Scope,
  withScope,
} from "@backplane/core";
import { type ByteSource, FileError } from "./checkpoint/file.js";
import { faultOfCounts, jsonFrom } from "./checkpoint/json.js";
import { readArray, readSafetensorsHeader } from "./checkpoint/safetensors.js";
import { DenseMatrix, type LookUp, type Matrix, type Product } from "./matrix.js";
import type { LayerWeights, Weights } from "./weights.js";

/** Of adapters, and of models that have them. */
const dtype: FloatType = "f32";

/** The matrices of a layer that are adapted. */
export const adaptedNames = ["queryKeyValue", "attentionOutput", "gateUp", "down"] as const;

/** A change of a matrix: W + up down. */
interface LowRank {
  /** [rank, columns of W] */
  readonly down: Matrix;
  /** [rows of W, rank] */
  readonly up: Matrix;
  /** [rank]: for one row between the two. */
  readonly between: Operand;
}

/** Changes of some matrices of a model, of low rank (LoRA, E. Hu et al., arXiv 2106.09685). */
export class Adapter {
  readonly #scope: Scope;
  readonly #changes: ReadonlyMap<string, LowRank>;

  constructor(scope: Scope, changes: ReadonlyMap<string, LowRank>) {
    this.#scope = scope;
    this.#changes = changes;
  }

  /** The change of a matrix, named such as `layers.0.down`; undefined if it stays as it is. */
  of(name: string): LowRank | undefined {
    return this.#changes.get(name);
  }

  free(): void {
    this.#scope.dispose();
  }
}

/** The key of the metadata of an adapter file: rank and scale, as JSON. */
export const ADAPTER_KEY = "adapter";

export interface AdapterSizes {
  readonly rank: number;
  /** By which up down is multiplied. */
  readonly scale: number;
}

/** The sizes of an adapter, from the metadata of its file. */
export function adapterSizesFrom(text: string | undefined): AdapterSizes {
  if (text === undefined) throw new FileError("It is no adapter that this program has trained.");
  return jsonFrom<AdapterSizes>(text, (sizes) => {
    const { scale } = sizes;
    return (
      faultOfCounts(sizes, ["rank"]) ??
      (Number.isFinite(scale) ? undefined : `scale is ${JSON.stringify(scale)}`)
    );
  });
}

/** Reads an adapter that this program has trained for a model with these weights. */
export async function readAdapter(
  backend: ComputeBackend,
  file: ByteSource,
  { layers }: Weights,
): Promise<Adapter> {
  const header = await readSafetensorsHeader(file);
  const { rank, scale } = adapterSizesFrom(header.metadata[ADAPTER_KEY]);
  const changes = new Map<string, LowRank>();
  const scope = openScope(backend);
  try {
    const between = scope.alloc(rank * dtypeBytes[dtype]);
    for (const [i, layer] of layers.entries())
      for (const part of adaptedNames) {
        const name = `layers.${i}.${part}`;
        const { rows, columns } = layer[part];
        const down = await readArray(file, header, `${name}.down`, [rank, columns]);
        const up = (await readArray(file, header, `${name}.up`, [rows, rank])).map((value) => scale * value);
        changes.set(name, {
          down: new DenseMatrix(backend, dtype, rank, columns, scope.upload(down)),
          up: new DenseMatrix(backend, dtype, rows, rank, scope.upload(up)),
          between,
        });
      }
  } catch (error) {
    scope.dispose();
    throw error;
  }
  return new Adapter(scope, changes);
}

/** Weights to which an adapter is added that can be exchanged between any two passes. The model must compute in f32. */
export class AdaptableWeights implements Weights {
  readonly embedding: Matrix;
  readonly layers: readonly LayerWeights[];
  readonly finalNorm: Operand;
  readonly classifier: Matrix;
  #adapter: Adapter | undefined;
  #revision = 0;

  constructor(backend: ComputeBackend, { embedding, layers, finalNorm, classifier }: Weights) {
    this.embedding = embedding;
    this.finalNorm = finalNorm;
    this.classifier = classifier;
    this.layers = layers.map((layer, i) => {
      const adapted = adaptedNames.map((part) => {
        const changeOf = () => this.#adapter?.of(`layers.${i}.${part}`);
        return [part, new AdaptedMatrix(backend, layer[part], changeOf)] as const;
      });
      return { ...layer, ...Object.fromEntries(adapted) };
    });
  }

  get revision(): number {
    return this.#revision;
  }

  /** Undefined: the weights as they are. */
  get adapter(): Adapter | undefined {
    return this.#adapter;
  }

  set adapter(adapter: Adapter | undefined) {
    this.#adapter = adapter;
    this.#revision++;
  }
}

/** A matrix that computes with the change that it finds at each product. */
class AdaptedMatrix implements Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly #backend: ComputeBackend;
  readonly #base: Matrix;
  readonly #changeOf: () => LowRank | undefined;

  constructor(backend: ComputeBackend, base: Matrix, changeOf: () => LowRank | undefined) {
    this.#backend = backend;
    this.#base = base;
    this.#changeOf = changeOf;
    this.rows = base.rows;
    this.columns = base.columns;
  }

  multiply(product: Product): void {
    this.#base.multiply(product);
    const change = this.#changeOf();
    if (change === undefined) return;
    const { count, input, output } = product;
    const { down, up } = change;
    const multiply = (between: Operand): void => {
      down.multiply({ count, input, output: between });
      up.multiply({ count, input: between, output, adds: true });
    };
    if (count === 1) multiply(change.between);
    else
      withScope(this.#backend, (scope) =>
        multiply(scope.alloc(count * down.rows * dtypeBytes[dtype], { zero: false })),
      );
  }

  /** Of the base: embeddings are not adapted. */
  lookUp(lookUp: LookUp): void {
    this.#base.lookUp(lookUp);
  }

  slice(first: number, count: number): AdaptedMatrix {
    return new AdaptedMatrix(this.#backend, this.#base.slice(first, count), () => {
      const change = this.#changeOf();
      return change === undefined ? undefined : { ...change, up: change.up.slice(first, count) };
    });
  }
}
