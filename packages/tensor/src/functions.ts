import {
  type Conv2dInputShapeArguments,
  conv2dInputShape,
  type NormalizeKind,
  type RopeKind,
} from "@backplane/core";
import { listed, refuse } from "./errors.js";
import { conv2dInputGradient } from "./ops/gradients.js";
import {
  type AttentionAttributes,
  attention as attentionOperation,
  type Conv2dAttributes,
  conv2d as conv2dOperation,
  normalize as normalizeOperation,
  type Pool2dAttributes,
  pool2d as pool2dOperation,
  type Resize2dAttributes,
  resize2d as resize2dOperation,
  rope as ropeOperation,
} from "./ops/networks.js";
import type { Random } from "./random.js";
import { scope } from "./scope.js";
import { apply, checkTensor, type Tensor, where } from "./tensor.js";

export interface NormOptions {
  /** For each place of the last axis. Default: 1. */
  readonly weight?: Tensor;
  /** For each place of the last axis. Default: 0. */
  readonly bias?: Tensor;
  /** Is added to the variance, or to the mean of squares. Default: 1e-5. */
  readonly epsilon?: number;
}

function normalized(kind: NormalizeKind, x: Tensor, { weight, bias, epsilon = 1e-5 }: NormOptions): Tensor {
  const inputs = [x];
  if (weight !== undefined) inputs.push(weight);
  if (bias !== undefined) inputs.push(bias);
  const attributes = { kind, epsilon, hasWeight: weight !== undefined, hasBias: bias !== undefined };
  return apply(normalizeOperation, inputs, attributes);
}

/** (x - mean) / sqrt(variance + epsilon) weight + bias, along the last axis. */
export function layerNorm(x: Tensor, options: NormOptions = {}): Tensor {
  return normalized("layer", x, options);
}

/** x / sqrt(mean of squares + epsilon) weight, along the last axis. */
export function rmsNorm(x: Tensor, options: NormOptions = {}): Tensor {
  return normalized("rms", x, options);
}

/** Convolution of images with a filter [outChannels, channels / groups, height, width]; as `conv2d` of core. */
export function conv2d(x: Tensor, filter: Tensor, bias?: Tensor, options: Conv2dAttributes = {}): Tensor {
  return apply(conv2dOperation, bias === undefined ? [x, filter] : [x, filter, bias], options);
}

export interface TransposedOptions extends Conv2dAttributes {
  /** Of the result, as rows and columns. Default: the smallest that the convolution turns into the extents of x. */
  readonly outputSize?: readonly [height: number, width: number];
}

/**
 * The transposed convolution: the gradient of `conv2d` by its input. x has as many channels as the filter
 * [channels, outChannels / groups, height, width] has rows.
 */
export function transposedConv2d(x: Tensor, filter: Tensor, options: TransposedOptions = {}): Tensor {
  const { outputSize, ...geometry } = options;
  checkTensor("transposedConv2d", "x", x);
  checkTensor("transposedConv2d", "filter", filter);
  if (x.rank !== 4 || filter.rank !== 4)
    refuse(
      "transposedConv2d",
      "shapes",
      `are ${listed(x.shape)} and ${listed(filter.shape)}; allowed: four axes each`,
    );
  const shapes = { outputShape: x.shape, filterShape: filter.shape };
  const shape = [
    ...conv2dInputShape({ ...geometry, ...(shapes as Pick<Conv2dInputShapeArguments, keyof typeof shapes>) }),
  ];
  if (outputSize !== undefined) shape.splice(geometry.layout === "NHWC" ? 1 : 2, 2, ...outputSize);
  return apply(conv2dInputGradient, [x, filter], { ...geometry, shape });
}

/** The largest element of each window. Stride: the extents of the window, unless given. */
export function maxPool2d(x: Tensor, kernel: readonly [number, number], options: PoolOptions = {}): Tensor {
  return apply(pool2dOperation, [x], { ...options, kind: "max", kernel });
}

/** The mean of each window. */
export function meanPool2d(x: Tensor, kernel: readonly [number, number], options: PoolOptions = {}): Tensor {
  return apply(pool2dOperation, [x], { ...options, kind: "mean", kernel });
}

export type PoolOptions = Omit<Pool2dAttributes, "kind" | "kernel">;

/** Images of another height and width; as `resize2d` of core. */
export function resize2d(x: Tensor, options: Resize2dAttributes): Tensor {
  return apply(resize2dOperation, [x], options);
}

export interface AttentionOptions extends AttentionAttributes {
  /** Broadcasts to [batch, heads, rows, keys]: u8, 0 hides a key; or floats that are added to the scores. */
  readonly mask?: Tensor;
}

/**
 * softmax(scale q k^T) v of q [batch, heads, rows, size] and k, v [batch, kvHeads, keys, size]; as `attention` of core.
 * Views, such as heads cut out of a wider row, are read where they are. No gradient reaches the mask.
 */
export function attention(
  q: Tensor,
  k: Tensor,
  v: Tensor,
  { mask, ...attributes }: AttentionOptions = {},
): Tensor {
  return apply(attentionOperation, mask === undefined ? [q, k, v] : [q, k, v, mask], attributes);
}

export interface RopeOptions {
  /** Default: halves. */
  readonly kind?: RopeKind;
  /** The position of the first row. Default: 0. */
  readonly start?: number;
}

/**
 * Turns pairs of elements of x [batch, heads, rows, size] by the angles of tables cos and sin [positions, size / 2]; as
 * `rope` of core. The tables have no gradients: recording throws `UNSUPPORTED` if they depend on what is watched.
 */
export function rope(
  x: Tensor,
  cos: Tensor,
  sin: Tensor,
  { kind = "halves", start = 0 }: RopeOptions = {},
): Tensor {
  return apply(ropeOperation, [x, cos, sin], { kind, start, inverse: false });
}

/** Each element 0 with a probability, and otherwise divided by the probability to stay: the mean stays the same. */
export function dropout(x: Tensor, probability: number, random: Random): Tensor {
  if (!(probability >= 0 && probability < 1))
    refuse("dropout", "probability", `is ${probability}; allowed: numbers from 0 up to but without 1`);
  return scope(() => {
    const stays = random.bernoulli(x.backend, x.shape, 1 - probability);
    return where(stays, x.mul(1 / (1 - probability)), 0);
  });
}

/**
 * The mean over rows of -ln(softmax(logits)[label]). Logits: [..., classes]; labels: i32, the shape without classes. A
 * label that is no class counts as 0 with no gradient, so that -1 can stand for padding; the mean divides by all rows.
 */
export function crossEntropy(logits: Tensor, labels: Tensor): Tensor {
  checkTensor("crossEntropy", "logits", logits);
  checkTensor("crossEntropy", "labels", labels);
  const rows = logits.shape.slice(0, -1);
  if (labels.dtype !== "i32" || listed(labels.shape) !== listed(rows))
    refuse(
      "crossEntropy",
      "labels",
      `is ${String(labels)}; allowed: i32 ${listed(rows)}, beside logits ${listed(logits.shape)}`,
    );
  return scope(() => logits.logSoftmax().takeAlong(labels.unsqueeze(-1)).mean().neg());
}
