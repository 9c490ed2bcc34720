import {
  type AttentionArguments,
  type ComputeBackend,
  type Conv2dArguments,
  conv2dOutputShape,
  type FloatType,
  type NormalizeKind,
  type Pool2dArguments,
  type Pool2dKind,
  pool2dOutputShape,
  type Resize2dArguments,
  type RopeKind,
  type SoftmaxKind,
} from "@backplane/core";
import { listed, refuse } from "../errors.js";
import { contiguous, realize } from "../lazy/fusion.js";
import { placeOf, Value } from "../value.js";
import { axisOf, type Shape } from "../view/shape.js";
import { operation, type TensorOperation } from "./operation.js";

/** Throws unless elements are of a type with floating-point arithmetic. Returns it. */
export function floatType(name: string, { dtype }: Value): FloatType {
  if (dtype !== "f32" && dtype !== "f16")
    refuse(name, "dtype", `is ${dtype}; allowed: f32, f16 (use cast)`, "UNSUPPORTED");
  return dtype;
}

/** Throws unless all have the type of the first. Returns it. */
function sharedType(name: string, values: readonly Value[]): FloatType {
  const dtype = floatType(name, values[0]!);
  for (const value of values)
    if (value.dtype !== dtype)
      refuse(name, "dtypes", `are ${dtype} and ${value.dtype}; allowed: one type (use cast)`);
  return dtype;
}

export interface SoftmaxAttributes {
  readonly axis: number;
}

function softmaxOf(kind: SoftmaxKind): TensorOperation<SoftmaxAttributes> {
  return operation(kind, ([x], { axis }) => {
    const { backend, shape } = x!;
    const dtype = floatType(kind, x!);
    const along = axisOf(kind, axis, shape.length);
    const input = contiguous(x!);
    const result = Value.allocate(backend, dtype, shape);
    backend.softmax({ kind, shape, axis: along, input, output: placeOf(result), dtype });
    return result;
  });
}

/** softmax and logSoftmax along an axis. */
export const softmaxes: Readonly<Record<SoftmaxKind, TensorOperation<SoftmaxAttributes>>> = {
  softmax: softmaxOf("softmax"),
  logSoftmax: softmaxOf("logSoftmax"),
};

export interface NormalizeAttributes {
  readonly kind: NormalizeKind;
  readonly epsilon: number;
  readonly hasWeight: boolean;
  readonly hasBias: boolean;
}

/** Normalization of the last axis; inputs: x, and weight and bias as the attributes say. Saves the statistics of rows. */
export const normalize: TensorOperation<NormalizeAttributes> = operation(
  "normalize",
  (inputs, { kind, epsilon, hasWeight, hasBias }, saves) => {
    const [x] = inputs;
    const weight = hasWeight ? inputs[1]! : undefined;
    const bias = hasBias ? inputs.at(-1)! : undefined;
    const { backend, shape } = x!;
    const dtype = sharedType("normalize", inputs);
    if (shape.length === 0) refuse("normalize", "x", "has no axis; allowed: at least one");
    const size = shape.at(-1)!;
    for (const [argument, value] of Object.entries({ weight, bias }))
      if (value !== undefined && (value.shape.length !== 1 || value.shape[0] !== size))
        refuse("normalize", argument, `has shape ${listed(value.shape)}; allowed: [${size}]`);
    const rows = shape.slice(0, -1);
    const result = Value.allocate(backend, dtype, shape);
    const mean = saves && kind === "layer" ? Value.allocate(backend, "f32", [...rows, 1]) : undefined;
    const inverseDeviation = saves ? Value.allocate(backend, "f32", [...rows, 1]) : undefined;
    backend.normalize({
      ...{ kind, rows: size === 0 ? 0 : x!.size / size, size, epsilon, dtype },
      ...{ input: contiguous(x!), output: placeOf(result) },
      ...(weight === undefined ? {} : { weight: contiguous(weight) }),
      ...(bias === undefined ? {} : { bias: contiguous(bias) }),
      ...(mean === undefined ? {} : { mean: placeOf(mean) }),
      ...(inverseDeviation === undefined ? {} : { inverseDeviation: placeOf(inverseDeviation) }),
    });
    if (inverseDeviation === undefined) return result;
    return mean === undefined ? [result, inverseDeviation] : [result, inverseDeviation, mean];
  },
);

export type Conv2dAttributes = Pick<Conv2dArguments, "layout" | "stride" | "padding" | "dilation" | "groups">;

/** Throws unless a list has so many whole numbers: the shape of a result follows from them. */
function checkNumbers(name: string, lists: Readonly<Record<string, NumberList>>): void {
  for (const [argument, [numbers, count, least]] of Object.entries(lists)) {
    const fits =
      numbers.length === count && numbers.every((entry) => Number.isSafeInteger(entry) && entry >= least);
    if (!fits) refuse(name, argument, `is ${listed(numbers)}; allowed: ${count} whole numbers from ${least}`);
  }
}

type NumberList = readonly [numbers: readonly number[], count: number, least: number];

/** Convolution; inputs: images, filter and, if there is one, bias. */
export const conv2d: TensorOperation<Conv2dAttributes> = operation(
  "conv2d",
  ([x, filter, bias], attributes) => {
    const { backend } = x!;
    const dtype = sharedType("conv2d", bias === undefined ? [x!, filter!] : [x!, filter!, bias]);
    const [inputShape, filterShape] = [
      imagesShape("conv2d", "x", x!),
      imagesShape("conv2d", "filter", filter!),
    ];
    const { stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1] } = attributes;
    checkNumbers("conv2d", { stride: [stride, 2, 1], padding: [padding, 4, 0], dilation: [dilation, 2, 1] });
    const shape = conv2dOutputShape({ ...attributes, inputShape, filterShape });
    const result = Value.allocate(backend, dtype, shape);
    const output = placeOf(result);
    backend.conv2d({
      ...attributes,
      ...{ inputShape, filterShape, input: contiguous(x!), filter: contiguous(filter!), output, dtype },
      ...(bias === undefined ? {} : { bias: contiguous(bias) }),
    });
    return result;
  },
);

export type Pool2dAttributes = Pick<
  Pool2dArguments,
  "layout" | "kernel" | "stride" | "padding" | "dilation" | "ceil" | "countPadding"
> & { readonly kind: Pool2dKind };

/** The largest element, or the mean, of each window. Saves where the largest are. */
export const pool2d: TensorOperation<Pool2dAttributes> = operation("pool2d", ([x], attributes, saves) => {
  const { backend } = x!;
  const dtype = floatType("pool2d", x!);
  const inputShape = imagesShape("pool2d", "x", x!);
  const { kind, kernel, padding = [0, 0, 0, 0], dilation = [1, 1] } = attributes;
  const stride = attributes.stride ?? kernel;
  checkNumbers("pool2d", {
    ...{ kernel: [kernel, 2, 1], stride: [stride, 2, 1], padding: [padding, 4, 0] },
    dilation: [dilation, 2, 1],
  });
  const shape = pool2dOutputShape({ ...attributes, inputShape });
  const indices = saves && kind === "max" ? Value.allocate(backend, "i32", shape) : undefined;
  const result = Value.allocate(backend, dtype, shape);
  const output = placeOf(result);
  backend.pool2d({
    ...attributes,
    ...{ inputShape, input: contiguous(x!), output, dtype },
    ...(indices === undefined ? {} : { indices: placeOf(indices) }),
  });
  return indices === undefined ? result : [result, indices];
});

export type Resize2dAttributes = Pick<
  Resize2dArguments,
  "kind" | "layout" | "outputHeight" | "outputWidth" | "coordinates"
>;

export const resize2d: TensorOperation<Resize2dAttributes> = operation("resize2d", ([x], attributes) => {
  const { backend } = x!;
  const dtype = floatType("resize2d", x!);
  const inputShape = imagesShape("resize2d", "x", x!);
  const first = attributes.layout === "NHWC" ? 1 : 2;
  const { outputHeight, outputWidth } = attributes;
  checkNumbers("resize2d", { outputHeight: [[outputHeight], 1, 0], outputWidth: [[outputWidth], 1, 0] });
  const shape = inputShape.with(first, outputHeight).with(first + 1, outputWidth);
  const result = Value.allocate(backend, dtype, shape);
  const output = placeOf(result);
  backend.resize2d({ ...attributes, inputShape, input: contiguous(x!), output, dtype });
  return result;
});

export type FourExtents = readonly [number, number, number, number];

function imagesShape(name: string, argument: string, { shape }: Value): FourExtents {
  if (shape.length !== 4) refuse(name, argument, `has shape ${listed(shape)}; allowed: four axes`);
  return shape as FourExtents;
}

export interface AttentionAttributes {
  readonly scale?: number | undefined;
  readonly causal?: AttentionArguments["causal"];
  readonly window?: number | undefined;
}

/**
 * Attention; inputs: q [batch, heads, rows, size], k and v [batch, kvHeads, keys, size] and, if there is one, a mask that
 * broadcasts to [batch, heads, rows, keys]. Rows lie as in [batch, rows, heads, size], so that heads can be joined without
 * a copy.
 */
export const attention: TensorOperation<AttentionAttributes> = operation(
  "attention",
  ([q, k, v, mask], { scale, causal, window }, saves) => {
    const { backend } = q!;
    const dtype = sharedType("attention", [q!, k!, v!]);
    const [batch, heads, queryLength, headSize] = imagesShape("attention", "q", q!);
    const [, kvHeads, keyLength] = imagesShape("attention", "k", k!);
    for (const [argument, value] of Object.entries({ k: k!, v: v! })) {
      const wanted = [batch, kvHeads, keyLength, headSize];
      if (listed(value.shape) !== listed(wanted))
        refuse(
          "attention",
          argument,
          `has shape ${listed(value.shape)}; allowed: ${listed(wanted)}, beside q ${listed(q!.shape)}`,
        );
    }
    const { result, strides: outStrides } = joinedHeads(q!);
    const sums =
      saves && hasAttentionGradient(backend)
        ? Value.allocate(backend, "f32", [batch, heads, queryLength])
        : undefined;
    const rows = { q: rowsOf(q!), k: rowsOf(k!), v: rowsOf(v!) };
    backend.attention({
      ...{ batch, heads, kvHeads, queryLength, keyLength, headSize, dtype },
      ...{ q: placeOf(q!), k: placeOf(k!), v: placeOf(v!), out: placeOf(result) },
      ...{ qStrides: rows.q, kStrides: rows.k, vStrides: rows.v, outStrides },
      ...(scale === undefined ? {} : { scale }),
      ...(causal === undefined ? {} : { causal }),
      ...(window === undefined ? {} : { window }),
      ...(mask === undefined ? {} : maskOf(mask, [batch, heads, queryLength, keyLength])),
      ...(sums === undefined ? {} : { logSumExp: placeOf(sums) }),
    });
    return sums === undefined ? result : [result, sums];
  },
);

/** Whether gradients of attention can be computed from the logarithms of its sums. */
export function hasAttentionGradient(backend: ComputeBackend): boolean {
  return backend.supports("attentionGradient") && backend.supports("attention", { logSumExp: true });
}

/** A value of the shape of another, [batch, heads, rows, size], whose rows lie as in [batch, rows, heads, size]. */
export function joinedHeads({ backend, dtype, shape }: Value): {
  readonly result: Value;
  readonly strides: readonly number[];
} {
  const [, heads, rows, size] = shape as FourExtents;
  const result = Value.allocate(backend, dtype, shape);
  const strides = [rows * heads * size, size, heads * size];
  result.strides = [...strides, 1];
  return { result, strides };
}

/** The strides of batch, heads and rows; elements of a row must follow one another. */
export function rowsOf(value: Value): readonly number[] {
  realize(value);
  const { shape, strides } = value.view;
  if ((strides[3] === 1 || shape[3] === 1) && strides.every((stride) => stride >= 0))
    return strides.slice(0, 3);
  contiguous(value);
  return value.view.strides.slice(0, 3);
}

/** A mask repeated to a shape, as attention takes it. */
export function maskOf(
  mask: Value,
  shape: Shape,
): Required<Pick<AttentionArguments, "mask" | "maskStrides" | "maskDtype">> {
  realize(mask);
  const { dtype } = mask;
  if (dtype !== "u8" && dtype !== "f32" && dtype !== "f16")
    refuse("attention", "mask", `is of type ${dtype}; allowed: f32, f16, u8`);
  if (mask.view.strides.some((stride) => stride < 0)) contiguous(mask);
  return { mask: placeOf(mask), maskStrides: mask.view.expand(shape).strides, maskDtype: dtype };
}

export interface RopeAttributes {
  readonly kind: RopeKind;
  readonly start: number;
  readonly inverse: boolean;
}

/** Rotary position embedding; inputs: x [batch, heads, rows, size], the tables cos and sin [length, rotated / 2]. */
export const rope: TensorOperation<RopeAttributes> = operation("rope", ([x, cos, sin], attributes) => {
  const { backend } = x!;
  const dtype = floatType("rope", x!);
  const [batch, heads, rows, size] = imagesShape("rope", "x", x!);
  if (cos!.shape.length !== 2 || listed(cos!.shape) !== listed(sin!.shape))
    refuse(
      "rope",
      "cos and sin",
      `have shapes ${listed(cos!.shape)} and ${listed(sin!.shape)}; allowed: [length, rotated / 2]`,
    );
  const [length, half] = cos!.shape as readonly [number, number];
  const inputStrides = rowsOf(x!);
  const result = Value.allocate(backend, dtype, x!.shape);
  const output = placeOf(result);
  backend.rope({
    ...{ ...attributes, batch, heads, rows, size, rotated: 2 * half, length, dtype },
    ...{ input: placeOf(x!), inputStrides, output, cos: contiguous(cos!), sin: contiguous(sin!) },
  });
  return result;
});
