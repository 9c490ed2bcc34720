import type { GeometryArguments } from "./conv2d/geometry.js";
import { imagesOf } from "./images.js";
import type { WindowsArguments } from "./pool2d/windows.js";

/* The shapes of images that windows make, or are made from. The operations check their arguments; here nothing is checked. */

/** Padded images have fewer rows and columns, so that kernels may add coordinates in signed 32-bit integers. */
export const PADDED_EXTENTS: number = 2 ** 30;

/** One axis of images, and the windows along it, in elements. */
export interface WindowsAlong {
  readonly size: number;
  /** Places of a window, and the distance between two of them. */
  readonly kernel: number;
  readonly dilation: number;
  /** From window to window. */
  readonly stride: number;
  /** Padding before and after the elements. */
  readonly before: number;
  readonly after: number;
}

/** Elements from the first place of a window to its last one, both included. */
export function reachOf({ kernel, dilation }: Pick<WindowsAlong, "kernel" | "dilation">): number {
  return dilation * (kernel - 1) + 1;
}

/**
 * floor((before + size + after - reach) / stride) + 1, or 0 if not even one window fits. With `ceil`, the quotient is rounded up,
 * and a last window that would begin behind the elements is left out.
 */
export function windowsAlong(axis: WindowsAlong, ceil = false): number {
  const { size, stride, before, after } = axis;
  const steps = (before + size + after - reachOf(axis)) / stride;
  if (!ceil) return Math.max(0, Math.floor(steps) + 1);
  const windows = Math.ceil(steps) + 1;
  const isBehind = windows > 1 && (windows - 1) * stride >= size + before;
  return Math.max(0, isBehind ? windows - 1 : windows);
}

type ImagesShape = readonly [number, number, number, number];

interface Geometry {
  readonly kernel: readonly [number, number];
  readonly stride?: readonly [number, number] | undefined;
  readonly padding?: readonly [number, number, number, number] | undefined;
  readonly dilation?: readonly [number, number] | undefined;
}

const along = (size: number, geometry: Geometry, axis: 0 | 1): WindowsAlong => ({
  size,
  kernel: geometry.kernel[axis],
  dilation: geometry.dilation?.[axis] ?? 1,
  stride: geometry.stride?.[axis] ?? 1,
  before: geometry.padding?.[axis] ?? 0,
  after: geometry.padding?.[axis === 0 ? 2 : 3] ?? 0,
});

export type Conv2dShapeArguments = Pick<
  GeometryArguments,
  "layout" | "inputShape" | "filterShape" | "stride" | "padding" | "dilation"
>;

/**
 * Returns the shape of the output of `conv2d`, [batch, outChannels, outHeight, outWidth] in the order of `layout`, with
 * outHeight = floor((height + top + bottom - dilationY * (kernelHeight - 1) - 1) / strideY) + 1. An extent is 0 if the filter
 * does not fit into the padded input, which `conv2d` refuses.
 */
export function conv2dOutputShape(args: Conv2dShapeArguments): ImagesShape {
  const { layout = "NCHW", inputShape, filterShape } = args;
  const [outChannels, , ...kernel] = filterShape;
  const { height, width } = imagesOf(layout, inputShape);
  const [rows, columns] = [height, width].map((size, axis) =>
    windowsAlong(along(size, { ...args, kernel }, axis as 0 | 1)),
  ) as [number, number];
  return imagesShape(layout, inputShape[0], outChannels, rows, columns);
}

export interface Conv2dInputShapeArguments
  extends Pick<GeometryArguments, "layout" | "filterShape" | "stride" | "padding" | "dilation" | "groups"> {
  /** [batch, outChannels, outHeight, outWidth], in the order of `layout`; each at least 1. */
  readonly outputShape: ImagesShape;
}

/**
 * Returns the smallest input from which `conv2d` makes an output of a shape: what a transposed convolution results in, [batch,
 * inChannels, height, width] in the order of `layout`, with
 * height = strideY * (outHeight - 1) + dilationY * (kernelHeight - 1) + 1 - top - bottom
 */
export function conv2dInputShape(args: Conv2dInputShapeArguments): ImagesShape {
  const { layout = "NCHW", outputShape, filterShape, groups = 1 } = args;
  const [, groupChannels, ...kernel] = filterShape;
  const outputs = imagesOf(layout, outputShape);
  const [height, width] = [outputs.height, outputs.width].map((count, i) => {
    const axis = along(count, { ...args, kernel }, i as 0 | 1);
    return axis.stride * (count - 1) + reachOf(axis) - axis.before - axis.after;
  }) as [number, number];
  return imagesShape(layout, outputShape[0], groupChannels * groups, height, width);
}

export type Pool2dShapeArguments = Pick<
  WindowsArguments,
  "layout" | "inputShape" | "kernel" | "stride" | "padding" | "dilation" | "ceil"
>;

/**
 * Returns the shape of the output of `pool2d`: the batch and the channels of the input, and as many rows and columns as there are
 * windows, in the order of `layout`. The stride is that of the kernel if it is not given. An extent is 0 if no window fits into
 * the padded input, which `pool2d` refuses.
 */
export function pool2dOutputShape(args: Pool2dShapeArguments): ImagesShape {
  const { layout = "NCHW", inputShape, kernel, stride = kernel, ceil } = args;
  const images = imagesOf(layout, inputShape);
  const [rows, columns] = [images.height, images.width].map((size, axis) =>
    windowsAlong(along(size, { ...args, stride }, axis as 0 | 1), ceil),
  ) as [number, number];
  return images.shape(rows, columns);
}

function imagesShape(
  layout: "NCHW" | "NHWC",
  batch: number,
  channels: number,
  height: number,
  width: number,
): ImagesShape {
  return layout === "NCHW" ? [batch, channels, height, width] : [batch, height, width, channels];
}
