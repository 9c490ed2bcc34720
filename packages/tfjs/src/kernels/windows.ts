import type { backend_util, TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { elementCount, stridesOf } from "../elements.js";
import { elementwise } from "./elementwise.js";
import { compose } from "./kernel.js";
import { copyOf, pad } from "./moves.js";

/*
 * What core has no operations for, over windows of any number of axes: the elements of all windows are copied side by
 * side (unfold), and the rest is a product, a reduction or a comparison. Gradients add up what belongs to the same
 * element (fold). See docs/decisions.
 */

/** Windows of tensors [batch, ...extents, channels]. All lists have one entry for each axis between these. */
export interface Windows {
  readonly batch: number;
  readonly channels: number;
  readonly extents: readonly number[];
  readonly kernel: readonly number[];
  readonly stride: readonly number[];
  readonly dilation: readonly number[];
  /** Padding before the first element. */
  readonly before: readonly number[];
  /** How many windows there are. */
  readonly out: readonly number[];
}

/** The number of windows, and of places in each. */
export function sizesOf({ out, kernel }: Windows): { readonly windows: number; readonly places: number } {
  return { windows: elementCount(out), places: elementCount(kernel) };
}

/** The elements of all windows: [batch, windows, places, channels]. Those of the padding have a value. */
export function unfold(
  backend: BackplaneBackend,
  x: TensorInfo,
  geometry: Windows,
  padding: number,
): TensorInfo {
  const { batch, channels, extents, kernel, stride, dilation, before, out } = geometry;
  const { windows, places } = sizesOf(geometry);
  return compose(backend, (made) => {
    const borders = extents.map((extent, axis): [number, number] => {
      const reach = (out[axis]! - 1) * stride[axis]! + (kernel[axis]! - 1) * dilation[axis]! + 1;
      return [before[axis]!, Math.max(0, reach - extent - before[axis]!)];
    });
    const view = { ...x, shape: [batch, ...extents, channels] };
    const isPadded = borders.some(([first, last]) => first + last > 0);
    const padded = isPadded ? made(pad(backend, view, [[0, 0], ...borders, [0, 0]], padding)) : view;
    const strides = stridesOf(padded.shape);
    return copyOf(backend, padded, [batch, windows, places, channels], {
      shape: [batch, ...out, ...kernel, channels],
      inputStrides: [
        strides[0]!,
        ...stride.map((step, axis) => step * strides[axis + 1]!),
        ...dilation.map((step, axis) => step * strides[axis + 1]!),
        1,
      ],
    });
  });
}

/** The sums of what belongs to each element, of values [batch, windows, places, channels]: [batch, ...extents, channels]. */
export function fold(backend: BackplaneBackend, values: TensorInfo, geometry: Windows): TensorInfo {
  const { batch, channels, extents } = geometry;
  const { windows, places } = sizesOf(geometry);
  return compose(backend, (made) => {
    const length = elementCount(extents);
    const numbers = made(
      backend.make(
        [length],
        "int32",
        Int32Array.from({ length }, (_, i) => i),
      ),
    );
    const indices = made(unfold(backend, numbers, { ...geometry, batch: 1, channels: 1 }, -1));
    const output = backend.output([batch, ...extents, channels], "float32", { zero: true });
    backend.compute.scatter({
      kind: "add",
      shape: [batch, length, channels],
      axis: 1,
      indexShape: [1, windows * places, 1],
      indices: backend.place(indices),
      updates: backend.place(values),
      output: output.handle,
    });
    return output;
  });
}

export function windowsOf2d(info: backend_util.Conv2DInfo): Windows {
  return {
    batch: info.batchSize,
    channels: info.inChannels,
    extents: [info.inHeight, info.inWidth],
    kernel: [info.filterHeight, info.filterWidth],
    stride: [info.strideHeight, info.strideWidth],
    dilation: [info.dilationHeight, info.dilationWidth],
    before: [info.padInfo.top, info.padInfo.left],
    out: [info.outHeight, info.outWidth],
  };
}

/** The places of the largest element of each window: i32 [batch, windows, channels]. */
export function largestOf(backend: BackplaneBackend, elements: TensorInfo): TensorInfo {
  const { shape } = elements;
  const input = backend.place(elements);
  const output = backend.output(shape.toSpliced(2, 1), "int32");
  const dtype = elements.dtype === "int32" ? "i32" : "f32";
  backend.compute.argReduce({ kind: "argMax", shape, axis: 2, input, output: output.handle, dtype });
  return output;
}

/** Values [batch, windows, channels] at the given place of each window, and 0 elsewhere. */
export function spread(
  backend: BackplaneBackend,
  values: TensorInfo,
  places: TensorInfo,
  shape: readonly number[],
): TensorInfo {
  const [batch, windows, , channels] = shape as [number, number, number, number];
  const each = [batch, windows, 1, channels];
  return elementwise(
    backend,
    "float32",
    [
      { ...values, shape: each },
      { ...places, shape: each },
    ],
    (e, value, place) =>
      e.select(e.binary("equal", place!, e.index(2)), e.convert("f32", value!), e.constant(0)),
    shape,
  );
}
