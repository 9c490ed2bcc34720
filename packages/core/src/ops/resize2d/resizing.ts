import { type ImageLayout, imagesOf, layouts } from "../images.js";
import type { ReaderOf } from "../reader.js";
import type { ArgumentsOf } from "../table.js";

/* Which elements the results of resize2d are made of, for it and its gradient. */

export const resizingTable = {
  /** The order of the axes of images: [batch, channels, height, width] or [batch, height, width, channels]. */
  layout: { role: "choice", values: ["NCHW", "NHWC"], default: "NCHW" },
  /** In the order of `layout`. */
  inputShape: { role: "extents", length: 4 },
  outputHeight: { role: "extent" },
  outputWidth: { role: "extent" },
  /**
   * Which place in the input belongs to row y of the output, and likewise for columns.
   *
   * `half-pixel`: (y + 1/2) * height / outputHeight - 1/2, as elements are the middles of squares.
   * `align-corners`: y * (height - 1) / (outputHeight - 1), so that corners meet corners; 0 if outputHeight is 1.
   * `asymmetric`: y * height / outputHeight.
   */
  coordinates: {
    role: "choice",
    values: ["half-pixel", "align-corners", "asymmetric"],
    default: "half-pixel",
  },
} as const;

export interface ResizingArguments extends ArgumentsOf<typeof resizingTable> {}

export type ResizeCoordinates = NonNullable<ResizingArguments["coordinates"]>;

/**
 * Where the elements along one axis come from: for place o in the output, at (o * factor + shift) / divisor in the input,
 * limited to [0, size - 1]; of `nearest`, the element is the floor of that. The numbers have no common divisor, and
 * |o * factor + shift| is below 2^31 for each o, and so is size * divisor.
 */
export interface ResizedAxis {
  readonly factor: number;
  readonly shift: number;
  readonly divisor: number;
}

/**
 * Both layouts have one form: element (p, y, x, c) of the input is at ((p * height + y) * width + x) * inner + c. With
 * NCHW, planes counts channels through the whole batch and inner is 1; with NHWC, planes counts images and inner channels.
 * All extents are at least 1. An axis whose extent stays as it is has factor and divisor 1, and shift 0. All are 0 but
 * the divisor, which is 1, if each place is the first.
 */
export interface Resizing {
  readonly planes: number;
  readonly height: number;
  readonly width: number;
  readonly inner: number;
  readonly outHeight: number;
  readonly outWidth: number;
  readonly y: ResizedAxis;
  readonly x: ResizedAxis;
}

/** Kernels compute places in signed 32-bit integers. */
const NUMBERS = 2 ** 31;

/** Reads all of the table's arguments. `inputs` and `outputs` count elements; without outputs, extents may be 0. */
export function resizingOf(
  args: ResizingArguments,
  kind: "nearest" | "bilinear",
  read: ReaderOf<typeof resizingTable>,
): Resizing & { readonly inputs: number; readonly outputs: number } {
  const layout: ImageLayout = read.choice("layout", args.layout, layouts) ?? resizingTable.layout.default;
  const inputShape = read.extents("inputShape", args.inputShape, 4);
  const outHeight = read.extent("outputHeight", args.outputHeight);
  const outWidth = read.extent("outputWidth", args.outputWidth);
  const coordinates =
    read.choice("coordinates", args.coordinates, resizingTable.coordinates.values) ??
    resizingTable.coordinates.default;
  const images = imagesOf(layout, inputShape);
  const { height, width } = images;
  const outputs = read.product("inputShape", images.shape(outHeight, outWidth));
  if (outputs > 0 && height * width === 0)
    read.fail("inputShape", `is [${inputShape.join(", ")}]; allowed: images with elements`);
  const along = (name: "outputHeight" | "outputWidth", size: number, extent: number): ResizedAxis => {
    const axis = axisOf(kind, coordinates, size, extent);
    const largest = Math.max((extent - 1) * axis.factor + Math.abs(axis.shift), size * axis.divisor);
    if (outputs > 0 && largest >= NUMBERS)
      read.fail(
        name,
        `is ${extent}, whose ratio to ${size} is of too large numbers; allowed: a product of both below 2^29, ` +
          "or more if they have a common divisor",
      );
    return axis;
  };
  const y = along("outputHeight", height, outHeight);
  const x = along("outputWidth", width, outWidth);
  return {
    inputs: read.product("inputShape", inputShape),
    outputs,
    planes: images.planes,
    height,
    width,
    inner: images.inner,
    outHeight,
    outWidth,
    y,
    x,
  };
}

/** For `size` places in the input and `extent` in the output. */
function axisOf(
  kind: "nearest" | "bilinear",
  coordinates: ResizeCoordinates,
  size: number,
  extent: number,
): ResizedAxis {
  // The middle between two elements belongs to the second.
  const isRounded = kind === "nearest" && coordinates !== "asymmetric";
  if (size === 1) return { factor: 0, shift: 0, divisor: 1 };
  if (size === extent) return { factor: 1, shift: 0, divisor: 1 };
  if (coordinates === "half-pixel")
    return reduced({ factor: 2 * size, shift: isRounded ? size : size - extent, divisor: 2 * extent });
  if (coordinates === "asymmetric") return reduced({ factor: size, shift: 0, divisor: extent });
  if (extent === 1) return { factor: 0, shift: 0, divisor: 1 };
  return reduced({
    factor: 2 * (size - 1),
    shift: isRounded ? extent - 1 : 0,
    divisor: 2 * (extent - 1),
  });
}

function reduced({ factor, shift, divisor }: ResizedAxis): ResizedAxis {
  const common = commonDivisor(commonDivisor(factor, Math.abs(shift)), divisor);
  return { factor: factor / common, shift: shift / common, divisor: divisor / common };
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b);
}
