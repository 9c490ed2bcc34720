import { type ComputeBackend, type DeviceHandle, dtypeBytes, type Operand } from "@backplane/core";
import { ones, type Tensor, tensor, zeros } from "@backplane/tensor";
import type { LoadedWeights } from "../checkpoint/load.js";
import { type BlockMatrix, DenseMatrix, type Matrix, sliceOf } from "../matrix.js";
import type { Random } from "../random.js";
import type { Shape } from "../shape.js";
import { type LayerWeights, layerShapes, type ModelWeights, mappedLayer, type Weights } from "../weights.js";

/** The weights of a model that is trained. Without a classifier, the embedding is that too. */
export type Parameters = Omit<ModelWeights<Tensor, Tensor>, "classifier"> & { readonly classifier?: Tensor };

/** Parameters made of the tensors that a function returns for each name, such as `layers.0.down`, and shape. */
export function parametersFrom(
  shape: Shape,
  make: (name: string, shape: readonly number[]) => Tensor,
): Parameters {
  const shapes = Object.entries(layerShapes(shape)) as [string, readonly number[]][];
  const layerAt = (i: number) =>
    Object.fromEntries(
      shapes.map(([name, extents]) => [name, make(`layers.${i}.${name}`, extents)]),
    ) as unknown as LayerWeights<Tensor, Tensor>;
  return {
    embedding: make("embedding", [shape.vocabulary, shape.size]),
    layers: Array.from({ length: shape.layers }, (_, i) => layerAt(i)),
    finalNorm: make("finalNorm", [shape.size]),
  };
}

/**
 * Random weights: norms of 1, and normal numbers of deviation 1 / sqrt(2 columns), or less by sqrt(2 layers) where a product
 * ends in the residual stream, so that the stream does not grow with the layers. (The 0.02 of large models starts a model
 * of 64 numbers per token so slowly that its loss after 100 steps is 3.1 instead of 2.4.)
 */
export function initialParameters(backend: ComputeBackend, shape: Shape, random: Random): Parameters {
  return parametersFrom(shape, (name, extents) => {
    if (extents.length === 1) return ones(backend, extents).keep();
    const count = extents.reduce((a, b) => a * b);
    const isLast = name.endsWith("attentionOutput") || name.endsWith("down");
    const narrowing = isLast ? Math.sqrt(2 * shape.layers) : 1;
    const deviation = 1 / Math.sqrt(2 * extents[1]!) / narrowing;
    const values = Float32Array.from({ length: count }, () => deviation * random.normal());
    return tensor(backend, values, { shape: extents }).keep();
  });
}

/** The parameters as the weights of a `Transformer`, in the memory in which they are now. */
export function weightsOf(
  backend: ComputeBackend,
  { embedding, classifier, layers, finalNorm }: Parameters,
): Weights {
  const matrix = (parameter: Tensor) => {
    const [rows, columns] = parameter.shape as [number, number];
    return new DenseMatrix(backend, "f32", rows, columns, placeOf(parameter));
  };
  const embeddingMatrix = matrix(embedding);
  return {
    embedding: embeddingMatrix,
    classifier: classifier === undefined ? embeddingMatrix : matrix(classifier),
    finalNorm: placeOf(finalNorm),
    layers: layers.map((layer) => mappedLayer(layer, matrix, placeOf)),
  };
}

/** Makes parameters of the weights of a model that computes in f32. Each is copied, and then freed: it is there once. */
export function movedParameters(
  backend: ComputeBackend,
  { size }: Shape,
  { weights, scope }: LoadedWeights,
): Parameters {
  const vector = (from: Operand): Tensor => {
    const copy = zeros(backend, [size]).keep();
    backend.copyDtoD(placeOf(copy), from, 4 * size);
    scope.free(sliceOf(from).handle);
    return copy;
  };
  const matrix = (from: Matrix): Tensor => {
    const copy = zeros(backend, [from.rows, from.columns]).keep();
    if (from instanceof DenseMatrix) {
      backend.copyDtoD(placeOf(copy), from.values, 4 * copy.size);
      scope.free(from.values.handle);
    } else {
      const blocks = from as BlockMatrix;
      blocks.widen(placeOf(copy));
      for (const { handle } of [blocks.stored, blocks.scales]) scope.free(handle);
    }
    return copy;
  };
  const { embedding, classifier } = weights;
  return {
    ...(classifier === embedding ? {} : { classifier: matrix(classifier) }),
    embedding: matrix(embedding),
    finalNorm: vector(weights.finalNorm),
    layers: weights.layers.map((layer) => mappedLayer(layer, matrix, vector)),
  };
}

function placeOf(parameter: Tensor): { readonly handle: DeviceHandle; readonly byteOffset: number } {
  const { storage, offset, dtype } = parameter.compute().value;
  return { handle: storage!.handle, byteOffset: offset * dtypeBytes[dtype] };
}
