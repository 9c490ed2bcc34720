import type { Pool2dArguments } from "@backplane/core";
import { backend_util, type TensorInfo, util } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { asType, elementwise, typed } from "./elementwise.js";
import type { Node } from "./formula.js";
import {
  type Conv2dInfo,
  fixed,
  isPair,
  type Pad,
  type Pair,
  paddingOf,
  pairOf,
  type Rounding,
} from "./images.js";
import { type Call, compose, type Kernels } from "./kernel.js";
import { pad } from "./moves.js";
import { reduce } from "./reduce.js";
import { largestOf, unfold, windowsOf2d } from "./windows.js";

export interface PoolAttributes {
  readonly filterSize: Pair;
  readonly strides: Pair;
  readonly pad: Pad;
  readonly dimRoundingMode?: Rounding;
}

export function pool2dInfo(
  shape: readonly number[],
  { filterSize, strides, pad, dimRoundingMode }: PoolAttributes,
): Conv2dInfo {
  return backend_util.computePool2DInfo(
    shape as [number, number, number, number],
    ...([filterSize, strides, 1, pad, dimRoundingMode] as const),
  );
}

/** What pooling or its gradient says about the geometry, in the words of core. */
export function poolingOf(
  info: Conv2dInfo,
): Required<
  Pick<
    Pool2dArguments,
    "layout" | "inputShape" | "outputShape" | "kernel" | "stride" | "padding" | "dilation"
  >
> {
  return {
    layout: "NHWC",
    inputShape: info.inShape,
    outputShape: info.outShape,
    kernel: [info.filterHeight, info.filterWidth],
    stride: [info.strideHeight, info.strideWidth],
    padding: paddingOf(info),
    dilation: [info.dilationHeight, info.dilationWidth],
  };
}

/** Whether each window is one element, in its place. */
function isIdentity({ filterHeight, filterWidth, inShape, outShape }: Conv2dInfo): boolean {
  return filterHeight === 1 && filterWidth === 1 && util.arraysEqual(inShape, outShape);
}

/** The results of windows without elements. */
const ofNothing = { max: Number.NEGATIVE_INFINITY, mean: Number.NaN } as const;

/** How many windows along an axis begin before the input ends. */
function windowsWithin(out: number, stride: number, before: number, extent: number): number {
  return Math.min(out, Math.ceil((extent + before) / stride));
}

/** All that follows from the shape and the attributes of a pooling alone. */
class Pooling {
  readonly info: Conv2dInfo;
  readonly isIdentity: boolean;
  /** Rounding up may make windows that lie past the input, which core does not have: the others. */
  readonly within: Conv2dInfo;
  readonly geometry: ReturnType<typeof poolingOf>;
  /** The extents of the input, and filter sizes and strides. */
  readonly #numbers: readonly number[];
  readonly #attributes: PoolAttributes;

  constructor(shape: readonly number[], attrs: PoolAttributes) {
    // Copied: somebody else may change his lists.
    const info = pool2dInfo(shape.slice(), attrs);
    const { padInfo, inHeight, inWidth, strideHeight, strideWidth } = info;
    const outHeight = windowsWithin(info.outHeight, strideHeight, padInfo.top, inHeight);
    const outWidth = windowsWithin(info.outWidth, strideWidth, padInfo.left, inWidth);
    const [batch, , , channels] = info.outShape;
    this.info = info;
    this.isIdentity = isIdentity(info);
    this.within =
      outHeight === info.outHeight && outWidth === info.outWidth
        ? info
        : { ...info, outHeight, outWidth, outShape: [batch, outHeight, outWidth, channels] };
    this.geometry = fixed(poolingOf(this.within));
    this.#numbers = [...shape, ...pairOf(attrs.filterSize), ...pairOf(attrs.strides)];
    this.#attributes = { ...attrs };
  }

  fits(shape: readonly number[], attrs: PoolAttributes): boolean {
    const { pad, dimRoundingMode, filterSize, strides } = this.#attributes;
    // A list of paddings may have changed since.
    if (typeof pad === "object" || attrs.pad !== pad || attrs.dimRoundingMode !== dimRoundingMode)
      return false;
    const numbers = this.#numbers;
    if (shape.length !== 4) return false;
    for (let axis = 0; axis < 4; axis++) if (shape[axis] !== numbers[axis]) return false;
    return (
      isPair(attrs.filterSize, filterSize, numbers[4]!, numbers[5]!) &&
      isPair(attrs.strides, strides, numbers[6]!, numbers[7]!)
    );
  }
}

/** The last different ones, the latest first: to work one out takes a sixth of a small call. */
const latest: Pooling[] = [];
const mostLatest = 8;

function poolingFor({ shape }: TensorInfo, attrs: PoolAttributes): Pooling {
  const place = latest.findIndex((pooling) => pooling.fits(shape, attrs));
  if (place === 0) return latest[0]!;
  const [found = new Pooling(shape, attrs)] = place < 0 ? [] : latest.splice(place, 1);
  latest.unshift(found);
  if (latest.length > mostLatest) latest.pop();
  return found;
}

/** Pools floats. */
function poolFloats(
  backend: BackplaneBackend,
  kind: "max" | "mean",
  x: TensorInfo,
  { info, within, geometry }: Pooling,
): TensorInfo {
  const input = backend.place(x);
  const output = backend.output(within.outShape, "float32");
  const { layout, inputShape, outputShape, kernel, stride, padding, dilation } = geometry;
  backend.compute.pool2d({
    kind,
    layout,
    inputShape,
    outputShape,
    kernel,
    stride,
    padding,
    dilation,
    input,
    output: output.handle,
  });
  if (within === info) return output;
  const beyond: [number, number][] = [
    [0, 0],
    [0, info.outHeight - within.outHeight],
    [0, info.outWidth - within.outWidth],
    [0, 0],
  ];
  return compose(backend, (made) => pad(backend, made(output), beyond, ofNothing[kind]));
}

/** The elements of all windows of whole numbers: core pools floats only. */
function windowsOfIntegers(backend: BackplaneBackend, x: TensorInfo, info: Conv2dInfo): TensorInfo {
  return compose(backend, (made) =>
    unfold(backend, typed(backend, made, x, "int32"), windowsOf2d(info), -(2 ** 31)),
  );
}

function maxPoolIntegers(backend: BackplaneBackend, x: TensorInfo, info: Conv2dInfo): TensorInfo {
  return compose(backend, (made) => {
    const elements = made(windowsOfIntegers(backend, x, info));
    return reduce(backend, "max", elements, [2], info.outShape);
  });
}

/** The largest whole number of each window, and its pixel. */
function largestIntegers(
  backend: BackplaneBackend,
  x: TensorInfo,
  info: Conv2dInfo,
): [TensorInfo, TensorInfo] {
  const { filterWidth, inWidth, strideHeight, strideWidth, padInfo } = info;
  return compose(backend, (made): [TensorInfo, TensorInfo] => {
    const elements = made(windowsOfIntegers(backend, x, info));
    const places = { ...made(largestOf(backend, elements)), shape: info.outShape };
    const pixels = elementwise(backend, "int32", [places], (e, place) => {
      const whole = (value: number) => e.number(value, "i32");
      const at = (axis: number, stride: number, before: number, within: Node) => {
        const begin = e.binary("sub", e.binary("mul", e.index(axis), whole(stride)), whole(before));
        // The padding is as large as the least number; the first pixel of a window of such numbers is one of them.
        return e.binary("max", e.binary("add", begin, within), whole(0));
      };
      const [row, column] = [
        at(1, strideHeight, padInfo.top, e.binary("div", place!, whole(filterWidth))),
        at(2, strideWidth, padInfo.left, e.binary("rem", place!, whole(filterWidth))),
      ];
      return e.binary("add", e.binary("mul", row, whole(inWidth)), column);
    });
    return [reduce(backend, "max", elements, [2], info.outShape), pixels];
  });
}

/** The largest float of each window, and its pixel. */
function largestFloats(backend: BackplaneBackend, x: TensorInfo, info: Conv2dInfo): [TensorInfo, TensorInfo] {
  const input = backend.place(x);
  const output = backend.output(info.outShape, "float32");
  const pixels = backend.output(info.outShape, "int32");
  backend.compute.pool2d({
    kind: "max",
    ...poolingOf(info),
    input,
    output: output.handle,
    indices: pixels.handle,
  });
  return [output, pixels];
}

function maxPool({ inputs: { x }, attrs, backend }: Call<"x", PoolAttributes>): TensorInfo {
  const pooling = poolingFor(x, attrs);
  if (pooling.isIdentity) return backend.share(x, x.shape);
  if (x.dtype === "float32") return poolFloats(backend, "max", x, pooling);
  return maxPoolIntegers(backend, x, pooling.info);
}

function avgPool({ inputs: { x }, attrs, backend }: Call<"x", PoolAttributes>): TensorInfo {
  const pooling = poolingFor(x, attrs);
  if (x.dtype === "float32" && !pooling.isIdentity) return poolFloats(backend, "mean", x, pooling);
  return compose(backend, (made) => {
    const floats = asType(backend, x, "float32");
    return pooling.isIdentity ? floats : poolFloats(backend, "mean", made(floats), pooling);
  });
}

function maxPoolWithArgmax({
  inputs: { x },
  attrs,
  backend,
}: Call<"x", PoolAttributes & { includeBatchInIndex: boolean }>): TensorInfo[] {
  const info = pool2dInfo(x.shape, attrs);
  return compose(backend, (made): TensorInfo[] => {
    const largest = x.dtype === "float32" ? largestFloats : largestIntegers;
    const [output, pixels] = largest(backend, x, info);
    made(pixels);
    const [, height, width, channels] = info.inShape;
    const indices = elementwise(backend, "int32", [pixels], (e, pixel) => {
      const place = e.binary("add", e.binary("mul", pixel, e.number(channels, "i32")), e.index(3));
      if (!attrs.includeBatchInIndex) return place;
      const image = e.binary("mul", e.index(0), e.number(height * width * channels, "i32"));
      return e.binary("add", place, image);
    });
    return [output, indices];
  });
}

export const poolingKernels: Kernels = {
  MaxPool: maxPool,
  AvgPool: avgPool,
  MaxPoolWithArgmax: maxPoolWithArgmax,
};
