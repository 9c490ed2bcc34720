import type {
  Conv2dArguments,
  Activation as CoreActivation,
  DeviceHandle,
  Operand,
  Resize2dArguments,
} from "@backplane/core";
import { backend_util, type TensorInfo, util } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { type DeviceType, elementCount } from "../elements.js";
import { elementwise, typed } from "./elementwise.js";
import { type Formula, formula } from "./formula.js";
import { type Call, compose, type Kernels } from "./kernel.js";
import { applyEpilogue, divideEpilogue, type Epilogue, noEpilogue } from "./products.js";

export type Conv2dInfo = backend_util.Conv2DInfo;

export type Pair = [number, number] | number;
export type Pad = "valid" | "same" | number | backend_util.ExplicitPadding;
export type Rounding = "floor" | "round" | "ceil";

/**
 * Padding as core has it: [top, left, bottom, right]. The last window ends where the padding does, however the number of
 * windows was rounded.
 */
export function paddingOf(info: Conv2dInfo): [number, number, number, number] {
  const { padInfo, inHeight, inWidth, outHeight, outWidth } = info;
  const after = (before: number, out: number, stride: number, filter: number, extent: number) =>
    Math.max(0, (out - 1) * stride + filter - extent - before);
  return [
    padInfo.top,
    padInfo.left,
    after(padInfo.top, outHeight, info.strideHeight, info.effectiveFilterHeight, inHeight),
    after(padInfo.left, outWidth, info.strideWidth, info.effectiveFilterWidth, inWidth),
  ];
}

/** What a convolution or its gradients say about the geometry, in the words of core. */
export function convolutionOf(
  info: Conv2dInfo,
  isDepthwise: boolean,
): Required<
  Pick<
    Conv2dArguments,
    "layout" | "inputShape" | "filterShape" | "outputShape" | "stride" | "padding" | "dilation" | "groups"
  >
> {
  const { inChannels, outChannels, filterHeight, filterWidth } = info;
  const groups = isDepthwise ? inChannels : 1;
  return {
    layout: info.dataFormat === "channelsLast" ? "NHWC" : "NCHW",
    inputShape: info.inShape,
    filterShape: [outChannels, inChannels / groups, filterHeight, filterWidth],
    outputShape: info.outShape,
    stride: [info.strideHeight, info.strideWidth],
    padding: paddingOf(info),
    dilation: [info.dilationHeight, info.dilationWidth],
    groups,
  };
}

/**
 * The axes of a filter of TensorFlow.js, [height, width, inChannels, outChannels] or
 * [height, width, channels, multiplier], in the order of core's [outChannels, inChannels / groups, height, width]: its
 * shape, and strides in the order of core.
 */
export function filterAxes(
  [height, width, inChannels, last]: readonly number[],
  isDepthwise: boolean,
): { readonly shape: number[]; readonly strides: number[] } {
  const [h, w, c, o] = [height!, width!, inChannels!, last!];
  const pixel = [w * c * o, c * o];
  return isDepthwise
    ? { shape: [c * o, h, w], strides: [1, ...pixel] }
    : { shape: [o, c, h, w], strides: [1, o, ...pixel] };
}

/** The name of a form of a filter: short, since it is looked up by it. */
function filterName([height, width, channels, last]: readonly number[], isDepthwise: boolean): string {
  return `${isDepthwise ? "depthwise" : "filter"} ${height} ${width} ${channels} ${last}`;
}

/** The filter in core's order of axes. It is kept with the tensor, whose values never change. */
export function coreFilter(
  backend: BackplaneBackend,
  filter: TensorInfo,
  isDepthwise: boolean,
  name: string = filterName(filter.shape, isDepthwise),
): DeviceHandle {
  return backend.form(filter, name, 4 * elementCount(filter.shape), (output) => {
    const { shape, strides } = filterAxes(filter.shape, isDepthwise);
    if (elementCount(shape) > 0)
      backend.compute.copy({ shape, input: backend.place(filter), inputStrides: strides, output });
  });
}

/** The same with lists that never change: core reads and checks a geometry of such lists once. */
export function fixed<Geometry extends object>(geometry: Geometry): Geometry {
  const entries = Object.entries(geometry).map(([name, value]) => [
    name,
    Array.isArray(value) ? Object.freeze([...value]) : value,
  ]);
  return Object.fromEntries(entries) as Geometry;
}

/** All that follows from shapes and attributes of a convolution alone. */
class Convolution {
  readonly info: Conv2dInfo;
  readonly geometry: ReturnType<typeof convolutionOf>;
  readonly isProduct: boolean;
  readonly filterName: string;
  readonly #isDepthwise: boolean;
  /** The extents of input and filter, and the attributes that are numbers: strides and dilations. */
  readonly #numbers: readonly number[];
  readonly #attributes: ConvAttributes;

  constructor(x: TensorInfo, filter: TensorInfo, attrs: ConvAttributes, isDepthwise: boolean) {
    // Copied: somebody else may change his lists.
    this.info = conv2dInfo(x.shape.slice(), filter.shape.slice(), attrs, isDepthwise);
    this.geometry = fixed(convolutionOf(this.info, isDepthwise));
    this.isProduct = !isDepthwise && isPointwise(this.info);
    this.filterName = filterName(filter.shape, isDepthwise);
    this.#isDepthwise = isDepthwise;
    const { strides, dilations } = attrs;
    this.#numbers = [...x.shape, ...filter.shape, ...pairOf(strides), ...pairOf(dilations)];
    this.#attributes = { ...attrs };
  }

  /** That of a call: the same as for the last one with this filter, if nothing is different. */
  static of(
    backend: BackplaneBackend,
    x: TensorInfo,
    filter: TensorInfo,
    attrs: ConvAttributes,
    isDepthwise: boolean,
  ): Convolution {
    const noted = backend.noted(filter);
    if (noted instanceof Convolution && noted.#fits(x, filter, attrs, isDepthwise)) return noted;
    const made = new Convolution(x, filter, attrs, isDepthwise);
    backend.note(filter, made);
    return made;
  }

  #fits(x: TensorInfo, filter: TensorInfo, attrs: ConvAttributes, isDepthwise: boolean): boolean {
    const { pad, dataFormat, dimRoundingMode, strides, dilations } = this.#attributes;
    if (isDepthwise !== this.#isDepthwise || attrs.dataFormat !== dataFormat) return false;
    // A list of paddings may have changed since.
    if (typeof pad === "object" || attrs.pad !== pad || attrs.dimRoundingMode !== dimRoundingMode)
      return false;
    if (x.shape.length !== 4 || filter.shape.length !== 4) return false;
    const numbers = this.#numbers;
    for (let axis = 0; axis < 4; axis++)
      if (x.shape[axis] !== numbers[axis] || filter.shape[axis] !== numbers[4 + axis]) return false;
    return (
      isPair(attrs.strides, strides, numbers[8]!, numbers[9]!) &&
      isPair(attrs.dilations, dilations, numbers[10]!, numbers[11]!)
    );
  }
}

type MaybePair = Pair | null | undefined;

/** A pair, or a number that stands for one. */
export function pairOf(given: MaybePair): readonly [number, number] {
  if (given === null || given === undefined) return [1, 1];
  return typeof given === "number" ? [given, given] : [given[0], given[1]];
}

/** Whether an attribute is a pair of these numbers, and of the form that it had `before`. */
export function isPair(given: MaybePair, before: MaybePair, first: number, second: number): boolean {
  if (typeof given !== "object" || given === null) return given === before;
  return typeof before === "object" && given.length === 2 && given[0] === first && given[1] === second;
}

function convolution(
  backend: BackplaneBackend,
  x: TensorInfo,
  filter: TensorInfo,
  attrs: ConvAttributes,
  isDepthwise: boolean,
  epilogue: Epilogue = noEpilogue,
): TensorInfo {
  const known = Convolution.of(backend, x, filter, attrs, isDepthwise);
  const { bias } = epilogue;
  // As nearly always: then there is nothing to convert, and to release afterwards.
  if (x.dtype === "float32" && filter.dtype === "float32" && (bias === undefined || bias.dtype === "float32"))
    return convolve(backend, known, x, filter, isDepthwise, epilogue);
  return compose(backend, (made) => {
    const floats = (tensor: TensorInfo) => typed(backend, made, tensor, "float32");
    const rest = bias === undefined ? epilogue : { ...epilogue, bias: floats(bias) };
    return convolve(backend, known, floats(x), floats(filter), isDepthwise, rest);
  });
}

/** The same for tensors of float32. */
function convolve(
  backend: BackplaneBackend,
  { info, geometry, isProduct, filterName }: Convolution,
  x: TensorInfo,
  filter: TensorInfo,
  isDepthwise: boolean,
  epilogue: Epilogue,
): TensorInfo {
  const { inner, outer } = divideEpilogue(inChannelOrder(epilogue, info), info.outChannels);
  const input = backend.place(x);
  const bias = inner.bias === undefined ? undefined : backend.place(inner.bias);
  const output = backend.output(info.outShape, "float32");
  // Literals, not spreads: an object that others are spread into took a tenth of a small call.
  if (isProduct)
    backend.compute.gemm(
      finished(
        {
          m: info.batchSize * info.outHeight * info.outWidth,
          n: info.outChannels,
          k: info.inChannels,
          a: input,
          // The filter as it lies is the second factor, and need not be turned round.
          b: backend.place(filter),
          c: output.handle,
        },
        bias,
        inner.activation,
      ),
    );
  else
    backend.compute.conv2d(
      finished(
        {
          layout: geometry.layout,
          inputShape: geometry.inputShape,
          filterShape: geometry.filterShape,
          outputShape: geometry.outputShape,
          stride: geometry.stride,
          padding: geometry.padding,
          dilation: geometry.dilation,
          groups: geometry.groups,
          input,
          filter: coreFilter(backend, filter, isDepthwise, filterName),
          output: output.handle,
        },
        bias,
        inner.activation,
      ),
    );
  if (outer !== undefined) applyEpilogue(backend, output, outer);
  return output;
}

/** The arguments of a call with what follows the sums. */
function finished<Arguments extends object>(
  call: Arguments,
  bias: Operand | undefined,
  activation: CoreActivation | undefined,
): Arguments {
  const written: { bias?: Operand; activation?: CoreActivation } = call;
  if (bias !== undefined) written.bias = bias;
  if (activation !== undefined) written.activation = activation;
  return call;
}

/** Whether a convolution of images with channels last is a product of pixels and filters. */
function isPointwise(info: Conv2dInfo): boolean {
  const { dataFormat, filterHeight, filterWidth, strideHeight, strideWidth } = info;
  return (
    dataFormat === "channelsLast" &&
    filterHeight * filterWidth * strideHeight * strideWidth === 1 &&
    info.outHeight === info.inHeight &&
    info.outWidth === info.inWidth
  );
}

/** Bias and slopes of one axis belong to channels, which are not the last axis of NCHW. */
function inChannelOrder(epilogue: Epilogue, { dataFormat, outChannels }: Conv2dInfo): Epilogue {
  const { slopes } = epilogue;
  if (dataFormat === "channelsLast" || slopes === undefined || slopes.shape.length !== 1) return epilogue;
  if (slopes.shape[0] !== outChannels) return epilogue;
  return { ...epilogue, slopes: { ...slopes, shape: [outChannels, 1, 1] } };
}

export interface ConvAttributes {
  readonly strides: Pair;
  readonly pad: Pad;
  readonly dataFormat: "NHWC" | "NCHW";
  readonly dilations?: Pair | null;
  readonly dimRoundingMode?: Rounding;
}

export function conv2dInfo(
  inShape: readonly number[],
  filterShape: readonly number[],
  { strides, pad, dataFormat = "NHWC", dilations, dimRoundingMode }: ConvAttributes,
  isDepthwise: boolean,
): Conv2dInfo {
  const dilation = dilations ?? 1;
  util.assert(
    !isDepthwise || backend_util.eitherStridesOrDilationsAreOne(strides, dilation),
    () => `depthwiseConv2d: strides are ${strides} and dilations ${dilation}; allowed: one of them 1`,
  );
  return backend_util.computeConv2DInfo(
    inShape as [number, number, number, number],
    filterShape as [number, number, number, number],
    ...([strides, dilation, pad, dimRoundingMode, isDepthwise] as const),
    backend_util.convertConv2DDataFormat(dataFormat),
  );
}

interface FusedInputs {
  readonly x: TensorInfo;
  readonly filter: TensorInfo;
  readonly bias?: TensorInfo;
  readonly preluActivationWeights?: TensorInfo;
}

interface FusedAttributes extends ConvAttributes {
  readonly activation: string;
  readonly leakyreluAlpha?: number;
}

function convKernel(isDepthwise: boolean): (call: Call<"x" | "filter", ConvAttributes>) => TensorInfo {
  return ({ inputs: { x, filter }, attrs, backend }) => convolution(backend, x, filter, attrs, isDepthwise);
}

function fusedConvKernel(isDepthwise: boolean) {
  return ({
    inputs: { x, filter, bias, preluActivationWeights },
    attrs,
    backend,
  }: {
    inputs: FusedInputs;
    attrs: FusedAttributes;
    backend: BackplaneBackend;
  }): TensorInfo =>
    convolution(backend, x, filter, attrs, isDepthwise, {
      bias,
      activation: attrs.activation,
      slopes: preluActivationWeights,
      alpha: attrs.leakyreluAlpha,
    });
}

export interface ResizeAttributes {
  readonly alignCorners: boolean;
  readonly halfPixelCenters: boolean;
  readonly size: [number, number];
}

/** What resizing or its gradient says about the geometry, in the words of core. */
export function resizingOf(
  shape: readonly number[],
  { alignCorners, halfPixelCenters, size: [outputHeight, outputWidth] }: ResizeAttributes,
): Required<
  Pick<Resize2dArguments, "layout" | "inputShape" | "outputHeight" | "outputWidth" | "coordinates">
> {
  const centers = halfPixelCenters ? "half-pixel" : "asymmetric";
  return {
    layout: "NHWC",
    inputShape: shape as [number, number, number, number],
    outputHeight,
    outputWidth,
    coordinates: alignCorners ? "align-corners" : centers,
  };
}

function resize(kind: "bilinear" | "nearest"): (call: Call<"images", ResizeAttributes>) => TensorInfo {
  return ({ inputs: { images }, attrs, backend }) =>
    compose(backend, (made) => {
      const dtype = (kind === "bilinear" ? "float32" : images.dtype) as DeviceType;
      const input = backend.place(typed(backend, made, images, dtype));
      const [batch, , , channels] = images.shape as [number, number, number, number];
      const output = backend.output([batch, ...attrs.size, channels], dtype);
      const types = { float32: "f32", int32: "i32", bool: "u8" } as const;
      backend.compute.resize2d({
        kind,
        ...resizingOf(images.shape, attrs),
        input,
        output: output.handle,
        dtype: types[dtype],
      });
      return output;
    });
}

/** (x - mean) / sqrt(variance + epsilon) scale + offset, which all broadcast. */
function batchNorm({
  inputs: { x, mean, variance, scale, offset },
  attrs: { varianceEpsilon },
  backend,
}: {
  inputs: { x: TensorInfo; mean: TensorInfo; variance: TensorInfo; scale?: TensorInfo; offset?: TensorInfo };
  attrs: { varianceEpsilon?: number | null };
  backend: BackplaneBackend;
}): TensorInfo {
  const others = [scale, offset].filter((tensor) => tensor !== undefined && tensor !== null);
  const built = normalizations[(scale ? 1 : 0) + (offset ? 2 : 0)]!;
  const values = [varianceEpsilon ?? 0.001];
  return elementwise(backend, "float32", [x, mean, variance, ...others], built, x.shape, { values });
}

/** Without scale and offset, with a scale, with an offset, and with both. */
const normalizations: readonly Formula[] = [0, 1, 2, 3].map((form) =>
  formula((e, ...nodes) => {
    const [value, average, spread, ...rest] = nodes.map((node) => e.convert("f32", node));
    const epsilon = rest.pop()!;
    const deviation = e.unary("rsqrt", e.binary("add", spread!, epsilon));
    const factor = form % 2 === 1 ? e.binary("mul", deviation, rest[0]!) : deviation;
    const normal = e.binary("mul", e.binary("sub", value!, average!), factor);
    return form >= 2 ? e.binary("add", normal, rest.at(-1)!) : normal;
  }),
);

export const imageKernels: Kernels = {
  Conv2D: convKernel(false),
  DepthwiseConv2dNative: convKernel(true),
  FusedConv2D: fusedConvKernel(false),
  FusedDepthwiseConv2D: fusedConvKernel(true),
  ResizeBilinear: resize("bilinear"),
  ResizeNearestNeighbor: resize("nearest"),
  FusedBatchNorm: batchNorm,
};
