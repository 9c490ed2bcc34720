import type { Checks } from "../checks.js";
import { FixedFindings } from "../fixed.js";
import { type ImageLayout, imagesOf, layouts } from "../images.js";
import { PADDED_EXTENTS, reachOf, type WindowsAlong, windowsAlong } from "../output-shapes.js";
import type { ReaderOf } from "../reader.js";
import type { ArgumentsOf } from "../table.js";

/* Where the windows of pool2d are, for it and its gradient. */

export const windowsTable = {
  /** The order of the axes of images: [batch, channels, height, width] or [batch, height, width, channels]. */
  layout: { role: "choice", values: ["NCHW", "NHWC"], default: "NCHW" },
  /** In the order of `layout`. */
  inputShape: { role: "extents", length: 4 },
  /** Rows and columns of a window: [y, x] */
  kernel: { role: "extents", length: 2, least: 1 },
  /**
   * In the order of `layout`. Checked if given. The batch and the channels are those of the input;
   * outHeight = floor((height + top + bottom - dilationY * (kernelHeight - 1) - 1) / strideY) + 1
   */
  outputShape: { role: "extents", length: 4, otherwise: "derived" },
  /** From window to window: [y, x] */
  stride: { role: "extents", length: 2, least: 1, otherwise: "the extents of the kernel" },
  /**
   * Places around the input that hold no element: [top, left, bottom, right]. Each window must meet an element. The padded
   * input must have fewer than 2^30 rows and columns.
   */
  padding: { role: "extents", length: 4, default: [0, 0, 0, 0] },
  /** From row to row and from column to column of a window: [y, x] */
  dilation: { role: "extents", length: 2, least: 1, default: [1, 1] },
  /**
   * outHeight and outWidth are rounded up, not down. The last windows may then reach beyond the padding, but must begin in
   * the input or before it.
   */
  ceil: { role: "flag", default: false },
  /** A mean also divides by the places of the padding that are in the window, but not by those beyond. For `mean` only. */
  countPadding: { role: "flag", default: false },
} as const;

export interface WindowsArguments extends ArgumentsOf<typeof windowsTable> {}

/**
 * Both layouts have one form: element (p, y, x, c) of the input is at ((p * height + y) * width + x) * inner + c. With
 * NCHW, planes counts channels through the whole batch and inner is 1; with NHWC, planes counts images and inner channels.
 *
 * All extents are at least 1, and each window meets an element. The padded input has fewer than 2^30 rows and columns, and so
 * has a window; a stride that leads past it is cut off there, so that kernels may add coordinates in signed 32-bit
 * integers. The dilation of a window of one row (or column) is 1.
 */
export interface PoolWindows {
  readonly planes: number;
  readonly height: number;
  readonly width: number;
  readonly inner: number;
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
  /** False if there is no padding that a mean could count. */
  readonly countPadding: boolean;
}

/** Places are i32. */
const MOST_PLACES = 2 ** 31;

/** `inputs` and `outputs` count elements; without any, extents may be 0. */
interface WindowsRead extends PoolWindows {
  readonly inputs: number;
  readonly outputs: number;
}

const findings = /* @__PURE__ */ new FixedFindings<WindowsArguments, WindowsRead>(
  windowsTable,
  (a, b) =>
    a.layout === b.layout &&
    a.kernel === b.kernel &&
    a.outputShape === b.outputShape &&
    a.stride === b.stride &&
    a.padding === b.padding &&
    a.dilation === b.dilation &&
    a.ceil === b.ceil &&
    a.countPadding === b.countPadding,
);

/** Reads all of the table's arguments. */
export function windowsOf(
  args: WindowsArguments,
  kind: "max" | "mean",
  read: ReaderOf<typeof windowsTable>,
): WindowsRead {
  if (args.countPadding === true && kind !== "mean")
    read.fail("countPadding", `is true; allowed: false for the kind ${kind}`);
  return findings.of(args.inputShape, args, (given) => readWindows(given, read));
}

function readWindows(args: WindowsArguments, read: ReaderOf<typeof windowsTable>): WindowsRead {
  const layout: ImageLayout = read.choice("layout", args.layout, layouts) ?? windowsTable.layout.default;
  const inputShape = read.extents("inputShape", args.inputShape, 4);
  const kernel = read.extents("kernel", args.kernel, 2, 1);
  const stride = read.optionalExtents("stride", args.stride, kernel, 2, 1);
  const padding = read.optionalExtents("padding", args.padding, windowsTable.padding.default, 4);
  const dilation = read.optionalExtents("dilation", args.dilation, windowsTable.dilation.default, 2, 1);
  const ceil = read.flag("ceil", args.ceil, windowsTable.ceil.default);
  const countPadding = read.flag("countPadding", args.countPadding, windowsTable.countPadding.default);
  const images = imagesOf(layout, inputShape);
  const [top, left, bottom, right] = padding;

  const along = (name: string, size: number, axis: 0 | 1) => {
    const [count, step, spread] = [kernel[axis], stride[axis], dilation[axis]];
    const [before, after] = [padding[axis], padding[axis + 2]!];
    const padded = size + before + after;
    const all: WindowsAlong = { size, kernel: count, dilation: spread, stride: step, before, after };
    const reach = reachOf(all);
    if (padded >= PADDED_EXTENTS)
      read.fail("padding", `makes ${padded} ${name} of the input; allowed: less than ${PADDED_EXTENTS}`);
    if (reach >= PADDED_EXTENTS)
      read.fail("kernel", `reaches over ${reach} ${name}; allowed: less than ${PADDED_EXTENTS}`);
    const windows = windowsAlong(all, ceil);
    if (windows < 1)
      read.fail("kernel", `reaches over ${reach} ${name}; allowed: at most the padded ${padded}`);
    if (!allMeet({ size, before, windows, step, spread, reach }))
      read.fail("padding", `has windows without any of the ${size} ${name} of the input; allowed: none`);
    return {
      windows,
      step: Math.min(step, padded),
      // Beyond the input all rows are alike; one beyond is enough to tell them from those inside.
      spread: count === 1 ? 1 : spread,
    };
  };
  const y = along("rows", images.height, 0);
  const x = along("columns", images.width, 1);
  const outputShape = images.shape(y.windows, x.windows);
  const given = read.optionalExtents("outputShape", args.outputShape, undefined, 4);
  read.derivedExtents("outputShape", given, outputShape);
  return {
    inputs: read.product("inputShape", inputShape),
    outputs: read.product("outputShape", outputShape),
    planes: images.planes,
    height: images.height,
    width: images.width,
    inner: images.inner,
    kernelHeight: kernel[0],
    kernelWidth: kernel[1],
    outHeight: y.windows,
    outWidth: x.windows,
    strideY: y.step,
    strideX: x.step,
    top,
    left,
    bottom,
    right,
    dilationY: y.spread,
    dilationX: x.spread,
    countPadding: countPadding && top + left + bottom + right > 0,
  };
}

/** Checks that each element of an image has a place in i32. */
export function checkPlaces({ height, width }: PoolWindows, read: Checks): void {
  if (height * width > MOST_PLACES)
    read.fail("inputShape", `has more than ${MOST_PLACES} places; allowed: as many as i32 has numbers`);
}

/** Along one axis: where the windows are. */
interface Windows {
  readonly size: number;
  readonly before: number;
  readonly windows: number;
  readonly step: number;
  readonly spread: number;
  readonly reach: number;
}

/** Whether each of the windows has a place in [0, size). */
function allMeet({ size, before, windows, step, spread, reach }: Windows): boolean {
  if (before >= reach || (windows - 1) * step - before >= size) return false;
  // A window that begins before the input has one of its places among the first `spread` of the input.
  if (size >= spread) return true;
  const early = Math.min(windows, Math.ceil(before / step), spread);
  for (let window = 0; window < early; window++) {
    const first = before - window * step;
    if ((spread - (first % spread)) % spread >= size) return false;
  }
  return true;
}
