import type { Operand } from "@backplane/core";
import type { Matrix } from "./matrix.js";
import type { Shape } from "./shape.js";

/** What a layer has learned: on the device, or in another form of matrices and of vectors. */
export interface LayerWeights<AsMatrix = Matrix, AsVector = Operand> {
  /** [size] */
  readonly attentionNorm: AsVector;
  /** [(heads + 2 kvHeads) headSize, size]: queries, keys and values below one another. */
  readonly queryKeyValue: AsMatrix;
  /** [size, heads headSize] */
  readonly attentionOutput: AsMatrix;
  /** [size] */
  readonly feedForwardNorm: AsVector;
  /** [2 hidden, size]: gate and up, one below the other. */
  readonly gateUp: AsMatrix;
  /** [size, hidden] */
  readonly down: AsMatrix;
}

/** What a model has learned. */
export interface ModelWeights<AsMatrix, AsVector> {
  /** [vocabulary, size] */
  readonly embedding: AsMatrix;
  readonly layers: readonly LayerWeights<AsMatrix, AsVector>[];
  /** [size] */
  readonly finalNorm: AsVector;
  /** [vocabulary, size]; many models take the embedding. */
  readonly classifier: AsMatrix;
}

/** On the device. */
export interface Weights extends ModelWeights<Matrix, Operand> {
  /** Changes whenever the matrices begin to compute something else. Default: they never do. */
  readonly revision?: number;
}

/** [rows, columns] of the matrices of a layer, and [columns] of its vectors. */
export function layerShapes({
  size,
  hidden,
  heads,
  kvHeads,
  headSize,
}: Shape): LayerWeights<readonly [rows: number, columns: number], readonly [columns: number]> {
  return {
    attentionNorm: [size],
    queryKeyValue: [(heads + 2 * kvHeads) * headSize, size],
    attentionOutput: [size, heads * headSize],
    feedForwardNorm: [size],
    gateUp: [2 * hidden, size],
    down: [size, hidden],
  };
}

/** A layer in another form, made of its weights one after the other. */
export function mappedLayer<FromMatrix, FromVector, ToMatrix, ToVector>(
  layer: LayerWeights<FromMatrix, FromVector>,
  matrix: (from: FromMatrix) => ToMatrix,
  vector: (from: FromVector) => ToVector,
): LayerWeights<ToMatrix, ToVector> {
  return {
    attentionNorm: vector(layer.attentionNorm),
    queryKeyValue: matrix(layer.queryKeyValue),
    attentionOutput: matrix(layer.attentionOutput),
    feedForwardNorm: vector(layer.feedForwardNorm),
    gateUp: matrix(layer.gateUp),
    down: matrix(layer.down),
  };
}
