import type { Region } from "../../region.js";
import { elements } from "../checks.js";
import { type ImageLayout, imagesOf, layouts } from "../images.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  kind: {
    role: "kind",
    kinds: {
      nearest: "the element nearest to the place",
      bilinear: "the four elements around the place, each by how near it is",
    },
  },
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
  input: { role: "reads", shape: "inputShape" },
  /** May not overlap the input. */
  output: { role: "writes", shape: "inputShape with the extents of the output" },
  /** Those that are no floats are for `nearest` only. */
  dtype: { role: "elementType", types: ["f32", "f16", "i32", "u32", "u8"], default: "f32" },
} as const;

/**
 * Images of another height and width. Each element of the output belongs to a place (u, v) in the input, which `coordinates`
 * says; u is limited to [0, height - 1], and v to [0, width - 1].
 *
 * - `nearest` is input[floor(u + 1/2), floor(v + 1/2)]; with `asymmetric` coordinates it is input[floor(u), floor(v)].
 *   Elements are copied bit by bit.
 * - `bilinear`, with i = floor(u), s = u - i, j = floor(v) and t = v - j, is
 *   (1 - s) * ((1 - t) * input[i, j] + t * input[i, j + 1]) + s * ((1 - t) * input[i + 1, j] + t * input[i + 1, j + 1]).
 *   An element whose factor is 0 has no effect, whatever it is.
 *
 * Places are computed exactly. All operands are contiguous.
 *
 * - PyTorch: "nearest" is `asymmetric`, and "nearest-exact" is `half-pixel`; "bilinear" is `align-corners` or `half-pixel`.
 * - TensorFlow.js: alignCorners is `align-corners`, halfPixelCenters is `half-pixel`, and neither is `asymmetric`.
 */
export interface Resize2dArguments extends ArgumentsOf<typeof table> {}

export type Resize2dKind = Resize2dArguments["kind"];

export const resize2dKinds: readonly Resize2dKind[] = Object.keys(table.kind.kinds) as Resize2dKind[];

export type Resize2dType = NonNullable<Resize2dArguments["dtype"]>;

export const resize2dTypes: readonly Resize2dType[] = table.dtype.types;

export type ResizeCoordinates = NonNullable<Resize2dArguments["coordinates"]>;

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
export interface Resize2dProblem<Memory> {
  readonly dtype: Resize2dType;
  readonly kind: Resize2dKind;
  readonly planes: number;
  readonly height: number;
  readonly width: number;
  readonly inner: number;
  readonly outHeight: number;
  readonly outWidth: number;
  readonly y: ResizedAxis;
  readonly x: ResizedAxis;
  readonly input: Region<Memory>;
  readonly output: Region<Memory>;
}

/** Kernels compute places in signed 32-bit integers. */
const NUMBERS = 2 ** 31;

export const resize2d: Operation<Resize2dArguments, Resize2dProblem<unknown>> = defineOperation({
  name: "resize2d",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, resize2dKinds);
    const layout: ImageLayout = read.choice("layout", args.layout, layouts) ?? table.layout.default;
    const inputShape = read.extents("inputShape", args.inputShape, 4);
    const outHeight = read.extent("outputHeight", args.outputHeight);
    const outWidth = read.extent("outputWidth", args.outputWidth);
    const coordinates =
      read.choice("coordinates", args.coordinates, table.coordinates.values) ?? table.coordinates.default;
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
    const input = read.region(binder, "input", args.input, read.product("inputShape", inputShape), dtype);
    const output = read.region(binder, "output", args.output, outputs, dtype);
    read.disjoint({ argument: "output", region: output }, { argument: "input", region: input });
    if (outputs === 0) return undefined;
    return {
      dtype,
      kind,
      planes: images.planes,
      height,
      width,
      inner: images.inner,
      outHeight,
      outWidth,
      y,
      x,
      input,
      output,
    };
  },

  /** A multiplication and an addition for each factor of an element, one pair of which belongs to the other axis. */
  flops: ({ kind, dtype, output }) => (kind === "nearest" ? 0 : 8 * elements(output, dtype)),

  /** Of the input, no more than what results are made of. */
  bytes: ({ kind, input, output }) =>
    Math.min(input.byteLength, (kind === "nearest" ? 1 : 4) * output.byteLength) + output.byteLength,
});

/** For `size` places in the input and `extent` in the output. */
function axisOf(
  kind: Resize2dKind,
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
