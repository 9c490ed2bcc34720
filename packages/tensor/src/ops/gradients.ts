import type { SoftmaxKind } from "@backplane/core";
import { contiguous } from "../lazy/fusion.js";
import { placeOf, Value } from "../value.js";
import type { Shape } from "../view/shape.js";
import type {
  AttentionAttributes,
  Conv2dAttributes,
  FourExtents,
  NormalizeAttributes,
  Pool2dAttributes,
  Resize2dAttributes,
  SoftmaxAttributes,
} from "./networks.js";
import { floatType, joinedHeads, maskOf, rowsOf } from "./networks.js";
import { operation, type TensorOperation } from "./operation.js";

/* The gradient operations of core. */

function softmaxGradientOf(kind: SoftmaxKind): TensorOperation<SoftmaxAttributes> {
  return operation(`${kind}Gradient`, ([output, gradient], { axis }) => {
    const { backend, shape } = output!;
    const dtype = floatType(kind, output!);
    const operands = { output: contiguous(output!), outputGradient: contiguous(gradient!) };
    const result = Value.allocate(backend, dtype, shape);
    backend.softmaxGradient({ kind, shape, axis, ...operands, inputGradient: placeOf(result), dtype });
    return result;
  });
}

/** Inputs: the result of softmax or logSoftmax, the gradient there. */
export const softmaxGradients: Readonly<Record<SoftmaxKind, TensorOperation<SoftmaxAttributes>>> = {
  softmax: softmaxGradientOf("softmax"),
  logSoftmax: softmaxGradientOf("logSoftmax"),
};

/** Which gradients of a normalization are wanted. */
export interface NormalizeWanted extends Omit<NormalizeAttributes, "hasBias"> {
  readonly wanted: Readonly<Record<"input" | "weight" | "bias", boolean>>;
}

/**
 * The gradients of a normalization at its input, weight and bias; undefined: not wanted. Inputs: x, the gradient at the
 * result, the inverse deviation, then the mean if the kind is layer, and the weight if there is one.
 */
export function normalizeGradients(
  [x, gradient, inverseDeviation, ...others]: readonly Value[],
  { kind, epsilon, hasWeight, wanted }: NormalizeWanted,
): readonly (Value | undefined)[] {
  const { backend, shape } = x!;
  const dtype = floatType("normalize", x!);
  const size = shape.at(-1)!;
  const made = (isWanted: boolean, like: Shape): Value | undefined =>
    isWanted ? Value.allocate(backend, dtype, like) : undefined;
  const inputGradient = made(wanted.input, shape);
  const weightGradient = made(wanted.weight, [size]);
  const biasGradient = made(wanted.bias, [size]);
  backend.normalizeGradient({
    ...{ kind, rows: size === 0 ? 0 : x!.size / size, size, epsilon, dtype },
    ...{ input: contiguous(x!), outputGradient: contiguous(gradient!) },
    inverseDeviation: contiguous(inverseDeviation!),
    ...(kind === "layer" ? { mean: contiguous(others[0]!) } : {}),
    ...(hasWeight ? { weight: contiguous(others.at(-1)!) } : {}),
    ...(inputGradient === undefined ? {} : { inputGradient: placeOf(inputGradient) }),
    ...(weightGradient === undefined ? {} : { weightGradient: placeOf(weightGradient) }),
    ...(biasGradient === undefined ? {} : { biasGradient: placeOf(biasGradient) }),
  });
  return [inputGradient, weightGradient, biasGradient];
}

export interface Conv2dGradientAttributes extends Conv2dAttributes {
  /** Of the images, or of the filter, whose gradient it is. */
  readonly shape: Shape;
}

/** Inputs: the gradient at the result of a convolution, the filter. This is the transposed convolution. */
export const conv2dInputGradient: TensorOperation<Conv2dGradientAttributes> = operation(
  "conv2dInputGradient",
  ([gradient, filter], { shape, ...geometry }) => {
    const { backend } = gradient!;
    const dtype = floatType("conv2dInputGradient", gradient!);
    const operands = { outputGradient: contiguous(gradient!), filter: contiguous(filter!) };
    const result = Value.allocate(backend, dtype, shape);
    backend.conv2dInputGradient({
      ...{ ...geometry, ...operands, inputGradient: placeOf(result), dtype },
      ...{ inputShape: shape as FourExtents, filterShape: filter!.shape as FourExtents },
      outputShape: gradient!.shape as FourExtents,
    });
    return result;
  },
);

/** Inputs: the images that were convolved, the gradient at the result. */
export const conv2dFilterGradient: TensorOperation<Conv2dGradientAttributes> = operation(
  "conv2dFilterGradient",
  ([x, gradient], { shape, ...geometry }) => {
    const { backend } = x!;
    const dtype = floatType("conv2dFilterGradient", x!);
    const operands = { input: contiguous(x!), outputGradient: contiguous(gradient!) };
    const result = Value.allocate(backend, dtype, shape);
    backend.conv2dFilterGradient({
      ...{ ...geometry, ...operands, filterGradient: placeOf(result), dtype },
      ...{ inputShape: x!.shape as FourExtents, filterShape: shape as FourExtents },
      outputShape: gradient!.shape as FourExtents,
    });
    return result;
  },
);

/** Inputs: the gradient at the result and, for max, where the largest elements were. */
export const pool2dGradient: TensorOperation<Pool2dAttributes & { readonly shape: Shape }> = operation(
  "pool2dGradient",
  ([gradient, indices], { shape, ...windows }) => {
    const { backend } = gradient!;
    const dtype = floatType("pool2dGradient", gradient!);
    const outputGradient = contiguous(gradient!);
    const result = Value.allocate(backend, dtype, shape);
    backend.pool2dGradient({
      ...{
        ...windows,
        inputShape: shape as FourExtents,
        outputGradient,
        inputGradient: placeOf(result),
        dtype,
      },
      ...(indices === undefined ? {} : { indices: contiguous(indices) }),
    });
    return result;
  },
);

/** Input: the gradient at the result. */
export const resize2dGradient: TensorOperation<Resize2dAttributes & { readonly shape: Shape }> = operation(
  "resize2dGradient",
  ([gradient], { shape, ...resizing }) => {
    const { backend } = gradient!;
    const dtype = floatType("resize2dGradient", gradient!);
    const outputGradient = contiguous(gradient!);
    const result = Value.allocate(backend, dtype, shape);
    const operands = { outputGradient, inputGradient: placeOf(result), dtype };
    backend.resize2dGradient({ ...resizing, inputShape: shape as FourExtents, ...operands });
    return result;
  },
);

/**
 * The gradients of attention at q, k and v. Inputs: q, k, v, the result, the logarithms of its sums, the gradient at the
 * result and, if there is one, the mask. Rows of the gradients lie as in [batch, rows, heads, size].
 */
export function attentionGradients(
  [q, k, v, out, logSumExp, gradient, mask]: readonly Value[],
  { scale, causal, window }: AttentionAttributes,
): readonly Value[] {
  const { backend } = q!;
  const dtype = floatType("attentionGradient", q!);
  const [batch, heads, queryLength, headSize] = q!.shape as FourExtents;
  const [, kvHeads, keyLength] = k!.shape as FourExtents;
  const strides = {
    ...{ qStrides: rowsOf(q!), kStrides: rowsOf(k!), vStrides: rowsOf(v!), outStrides: rowsOf(out!) },
    outGradientStrides: rowsOf(gradient!),
  };
  const [atQ, atK, atV] = [joinedHeads(q!), joinedHeads(k!), joinedHeads(v!)];
  backend.attentionGradient({
    ...{ batch, heads, kvHeads, queryLength, keyLength, headSize, dtype, ...strides },
    ...{ q: placeOf(q!), k: placeOf(k!), v: placeOf(v!), out: placeOf(out!) },
    ...{ logSumExp: contiguous(logSumExp!), outGradient: placeOf(gradient!) },
    ...{ qGradient: placeOf(atQ.result), qGradientStrides: atQ.strides },
    ...{ kGradient: placeOf(atK.result), kGradientStrides: atK.strides },
    ...{ vGradient: placeOf(atV.result), vGradientStrides: atV.strides },
    ...(scale === undefined ? {} : { scale }),
    ...(causal === undefined ? {} : { causal }),
    ...(window === undefined ? {} : { window }),
    ...(mask === undefined ? {} : maskOf(mask, [batch, heads, queryLength, keyLength])),
  });
  return [atQ.result, atK.result, atV.result];
}
