import { FixedFindings } from "../fixed.js";
import { type ImageLayout, layouts } from "../images.js";
import { PADDED_EXTENTS, reachOf, type WindowsAlong, windowsAlong } from "../output-shapes.js";
import type { ReaderOf } from "../reader.js";
import type { ArgumentsOf } from "../table.js";

/** The arguments of a convolution and of its gradients that say how images, filters and results lie over one another. */
export const geometryTable = {
  /** The order of the axes of images: [batch, channels, height, width] or [batch, height, width, channels]. */
  layout: { role: "choice", values: ["NCHW", "NHWC"], default: "NCHW" },
  /** [batch, inChannels, height, width], in the order of `layout` */
  inputShape: { role: "extents", length: 4 },
  /**
   * [outChannels, inChannels / groups, kernelHeight, kernelWidth], whatever the layout. The kernel is at least 1 x 1; with
   * dilation it must fit into the padded input.
   */
  filterShape: { role: "extents", length: 4 },
  /**
   * [batch, outChannels, outHeight, outWidth], in the order of `layout`. Checked if given.
   * outHeight = floor((height + top + bottom - dilationY * (kernelHeight - 1) - 1) / strideY) + 1
   */
  outputShape: { role: "extents", length: 4, otherwise: "derived" },
  /** [y, x] */
  stride: { role: "extents", length: 2, least: 1, default: [1, 1] },
  /**
   * Zeros around the input: [top, left, bottom, right]. The padded input must have fewer than 2^30 rows and columns.
   */
  padding: { role: "extents", length: 4, default: [0, 0, 0, 0] },
  /** [y, x] */
  dilation: { role: "extents", length: 2, least: 1, default: [1, 1] },
  /** Must divide inChannels and outChannels. */
  groups: { role: "extent", least: 1, default: 1 },
} as const;

export interface GeometryArguments extends ArgumentsOf<typeof geometryTable> {}

/**
 * Output (y, x) meets input (y * strideY + i * dilationY - top, x * strideX + j * dilationX - left) under filter place
 * (i, j). outHeight, outWidth, kernelHeight and kernelWidth are at least 1. The padded input has fewer than 2^30
 * rows and columns, and a stride or dilation that leads past it is cut off there, so that kernels may add
 * coordinates in signed 32-bit integers.
 */
export interface Conv2dGeometry {
  /** "NCHW" too where both layouts are the same, because images have one channel, or one pixel. */
  readonly layout: ImageLayout;
  readonly batch: number;
  readonly inChannels: number;
  readonly height: number;
  readonly width: number;
  readonly outChannels: number;
  readonly kernelHeight: number;
  readonly kernelWidth: number;
  readonly outHeight: number;
  readonly outWidth: number;
  readonly strideY: number;
  readonly strideX: number;
  readonly top: number;
  readonly left: number;
  readonly bottom: number;
  readonly right: number;
  readonly dilationY: number;
  readonly dilationX: number;
  readonly groups: number;
}

/** The geometry of a call, and the elements of each operand that has a shape. */
export interface GeometryRead {
  readonly geometry: Conv2dGeometry;
  readonly inputs: number;
  readonly filters: number;
  readonly outputs: number;
}

const findings = /* @__PURE__ */ new FixedFindings<GeometryArguments, GeometryRead>(
  geometryTable,
  (a, b) =>
    a.layout === b.layout &&
    a.filterShape === b.filterShape &&
    a.outputShape === b.outputShape &&
    a.stride === b.stride &&
    a.padding === b.padding &&
    a.dilation === b.dilation &&
    a.groups === b.groups,
);

/** Reads and checks the arguments of `geometryTable`. */
export function readGeometry(args: GeometryArguments, read: ReaderOf<typeof geometryTable>): GeometryRead {
  return findings.of(args.inputShape, args, (given) => readAnew(given, read));
}

function readAnew(args: GeometryArguments, read: ReaderOf<typeof geometryTable>): GeometryRead {
  const inputShape = read.extents("inputShape", args.inputShape, 4);
  const filterShape = read.extents("filterShape", args.filterShape, 4);
  const layout = read.choice("layout", args.layout, layouts) ?? geometryTable.layout.default;
  const isLast = layout === "NHWC";
  const batch = inputShape[0];
  const [inChannels, height, width] = isLast
    ? [inputShape[3], inputShape[1], inputShape[2]]
    : [inputShape[1], inputShape[2], inputShape[3]];
  const [outChannels, groupChannels] = filterShape;
  const kernelHeight = read.count("filterShape[2]", filterShape[2], 1);
  const kernelWidth = read.count("filterShape[3]", filterShape[3], 1);
  const [strideY, strideX] = read.optionalExtents("stride", args.stride, geometryTable.stride.default, 2, 1);
  const [dilationY, dilationX] = read.optionalExtents(
    "dilation",
    args.dilation,
    geometryTable.dilation.default,
    2,
    1,
  );
  const [top, left, bottom, right] = read.optionalExtents(
    "padding",
    args.padding,
    geometryTable.padding.default,
    4,
  );
  const groups = read.extent("groups", args.groups, geometryTable.groups.default, geometryTable.groups.least);
  if (inChannels % groups !== 0 || outChannels % groups !== 0)
    read.fail("groups", `is ${groups}; allowed: a divisor of ${inChannels} and ${outChannels} channels`);
  if (groupChannels !== inChannels / groups)
    read.fail("filterShape[1]", `is ${groupChannels}; allowed: ${inChannels / groups}, inChannels / groups`);

  const along = (name: string, size: number, kernel: number, stride: number, dilation: number) => {
    if (size >= PADDED_EXTENTS)
      read.fail("padding", `makes ${size} ${name} of the input; allowed: less than ${PADDED_EXTENTS}`);
    const axis: WindowsAlong = { size, kernel, dilation, stride, before: 0, after: 0 };
    const windows = windowsAlong(axis);
    if (windows < 1)
      read.fail("filterShape", `reaches over ${reachOf(axis)} ${name}; allowed: at most the padded ${size}`);
    return windows;
  };
  const paddedHeight = height + top + bottom;
  const paddedWidth = width + left + right;
  const outHeight = along("rows", paddedHeight, kernelHeight, strideY, dilationY);
  const outWidth = along("columns", paddedWidth, kernelWidth, strideX, dilationX);
  const outputShape = isLast
    ? [batch, outHeight, outWidth, outChannels]
    : [batch, outChannels, outHeight, outWidth];
  const given = read.optionalExtents("outputShape", args.outputShape, undefined, 4);
  read.derivedExtents("outputShape", given, outputShape);
  const isEither = (channels: number, pixels: number) => channels <= 1 || pixels <= 1;
  return {
    inputs: read.product("inputShape", inputShape),
    filters: read.product("filterShape", filterShape),
    outputs: read.product("outputShape", outputShape),
    geometry: {
      layout:
        isEither(inChannels, height * width) && isEither(outChannels, outHeight * outWidth) ? "NCHW" : layout,
      batch,
      inChannels,
      height,
      width,
      outChannels,
      kernelHeight,
      kernelWidth,
      outHeight,
      outWidth,
      strideY: Math.min(strideY, paddedHeight),
      strideX: Math.min(strideX, paddedWidth),
      top,
      left,
      bottom,
      right,
      dilationY: Math.min(dilationY, paddedHeight),
      dilationX: Math.min(dilationX, paddedWidth),
      groups,
    },
  };
}

/** Whether each pixel of the output has one place in the input, the same one, and none is in the padding. */
export function isPointwise(geometry: Conv2dGeometry): boolean {
  const { kernelHeight, kernelWidth, strideY, strideX, top, left, bottom, right } = geometry;
  return kernelHeight * kernelWidth * strideY * strideX === 1 && top + left + bottom + right === 0;
}

/** Whether there is one window, whose places are the pixels of the input in their order. */
export function isOneWindow(geometry: Conv2dGeometry): boolean {
  const { height, width, kernelHeight, kernelWidth, outHeight, outWidth, top, left } = geometry;
  const along = (size: number, kernel: number, dilation: number): boolean =>
    kernel === size && (kernel === 1 || dilation === 1);
  return (
    outHeight * outWidth === 1 &&
    top + left === 0 &&
    along(height, kernelHeight, geometry.dilationY) &&
    along(width, kernelWidth, geometry.dilationX)
  );
}

/** Floating-point operations of one convolution, or of one of its gradients, without anything else. */
export function convolutionFlops(geometry: Conv2dGeometry): number {
  const { batch, inChannels, outChannels, outHeight, outWidth, groups, kernelHeight, kernelWidth } = geometry;
  const taps = (inChannels / groups) * kernelHeight * kernelWidth;
  return 2 * batch * outChannels * outHeight * outWidth * taps;
}
