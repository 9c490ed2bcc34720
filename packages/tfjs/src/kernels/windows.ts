import { backend_util, type TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { type DeviceType, elementCount } from "../elements.js";
import { asType, elementwise } from "./elementwise.js";
import { type Call, compose, type Kernels } from "./kernel.js";
import { reduce } from "./reduce.js";
import { copyOf, pad, stridesOf } from "./structure.js";

/*
 * What core has no operations for, over windows of any number of axes: the elements of all windows are copied side by
 * side (unfold), and the rest is a product, a reduction or a comparison. Gradients add up what belongs to the same
 * element (fold). See docs/decisions.
 */

/** Windows of tensors [batch, ...extents, channels]. All lists have one entry for each axis between these. */
interface Windows {
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
function sizesOf({ out, kernel }: Windows): { readonly windows: number; readonly places: number } {
  return { windows: elementCount(out), places: elementCount(kernel) };
}

/** The elements of all windows: [batch, windows, places, channels]. Those of the padding have a value. */
function unfold(backend: BackplaneBackend, x: TensorInfo, geometry: Windows, padding: number): TensorInfo {
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
function fold(backend: BackplaneBackend, values: TensorInfo, geometry: Windows): TensorInfo {
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
      ...{ kind: "add", shape: [batch, length, channels], axis: 1 },
      ...{ indexShape: [1, windows * places, 1], indices: backend.place(indices) },
      ...{ updates: backend.place(values), output: output.handle },
    });
    return output;
  });
}

type Triple = [number, number, number] | number;

interface Conv3dAttributes {
  readonly strides: Triple;
  readonly pad: "valid" | "same";
  readonly dilations?: Triple;
}

function windowsOf3d(info: backend_util.Conv3DInfo): Windows {
  return {
    batch: info.batchSize,
    channels: info.inChannels,
    extents: [info.inDepth, info.inHeight, info.inWidth],
    kernel: [info.filterDepth, info.filterHeight, info.filterWidth],
    stride: [info.strideDepth, info.strideHeight, info.strideWidth],
    dilation: [info.dilationDepth, info.dilationHeight, info.dilationWidth],
    before: [info.padInfo.front, info.padInfo.top, info.padInfo.left],
    out: [info.outDepth, info.outHeight, info.outWidth],
  };
}

function windowsOf2d(info: backend_util.Conv2DInfo): Windows {
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

function conv3dInfo(
  shape: readonly number[],
  filterShape: readonly number[],
  { strides, pad: padding, dilations = 1 }: Conv3dAttributes,
): backend_util.Conv3DInfo {
  return backend_util.computeConv3DInfo(
    shape as [number, number, number, number, number],
    filterShape as [number, number, number, number, number],
    ...([strides, dilations, padding] as const),
  );
}

function conv3d({
  inputs: { x, filter },
  attrs,
  backend,
}: Call<"x" | "filter", Conv3dAttributes>): TensorInfo {
  const info = conv3dInfo(x.shape, filter.shape, attrs);
  const geometry = windowsOf3d(info);
  const { windows, places } = sizesOf(geometry);
  return compose(backend, (made) => {
    const images = made(asType(backend, x, "float32"));
    const weights = made(asType(backend, filter, "float32"));
    const columns = made(unfold(backend, images, geometry, 0));
    const [a, b] = [backend.place(columns), backend.place(weights)];
    const output = backend.output(info.outShape, "float32");
    const [m, n, k] = [geometry.batch * windows, info.outChannels, places * info.inChannels];
    backend.compute.gemm({ m, n, k, a, b, c: output.handle });
    return output;
  });
}

function conv3dBackpropFilter({
  inputs: { x, dy },
  attrs,
  backend,
}: Call<"x" | "dy", Conv3dAttributes & { filterShape: number[] }>): TensorInfo {
  const info = conv3dInfo(x.shape, attrs.filterShape, attrs);
  const geometry = windowsOf3d(info);
  const { windows, places } = sizesOf(geometry);
  return compose(backend, (made) => {
    const images = made(asType(backend, x, "float32"));
    const gradients = made(asType(backend, dy, "float32"));
    const columns = made(unfold(backend, images, geometry, 0));
    const [a, b] = [backend.place(columns), backend.place(gradients)];
    const output = backend.output(attrs.filterShape, "float32");
    const [m, n, k] = [places * info.inChannels, info.outChannels, geometry.batch * windows];
    backend.compute.gemm({ m, n, k, a, b, c: output.handle, transA: true });
    return output;
  });
}

function conv3dBackpropInput({
  inputs: { dy, filter },
  attrs,
  backend,
}: Call<"dy" | "filter", Conv3dAttributes & { inputShape: number[] }>): TensorInfo {
  const info = conv3dInfo(attrs.inputShape, filter.shape, attrs);
  const geometry = windowsOf3d(info);
  const { windows, places } = sizesOf(geometry);
  return compose(backend, (made) => {
    const gradients = made(asType(backend, dy, "float32"));
    const weights = made(asType(backend, filter, "float32"));
    const [a, b] = [backend.place(gradients), backend.place(weights)];
    const shape = [geometry.batch, windows, places, info.inChannels];
    const columns = made(backend.output(shape, "float32"));
    const [m, n, k] = [geometry.batch * windows, places * info.inChannels, info.outChannels];
    backend.compute.gemm({ m, n, k, a, b, c: columns.handle, transB: true });
    return fold(backend, columns, geometry);
  });
}

interface Pool3dAttributes {
  readonly filterSize: Triple;
  readonly strides: Triple;
  readonly pad: "valid" | "same" | number;
  readonly dimRoundingMode?: "floor" | "round" | "ceil";
}

function pool3dInfo(
  shape: readonly number[],
  { filterSize, strides, pad: padding, dimRoundingMode }: Pool3dAttributes,
): backend_util.Conv3DInfo {
  return backend_util.computePool3DInfo(
    shape as [number, number, number, number, number],
    ...([filterSize, strides, 1, padding, dimRoundingMode] as const),
  );
}

function maxPool3d({ inputs: { x }, attrs, backend }: Call<"x", Pool3dAttributes>): TensorInfo {
  const info = pool3dInfo(x.shape, attrs);
  return compose(backend, (made) => {
    const floats = made(asType(backend, x, "float32"));
    const elements = made(unfold(backend, floats, windowsOf3d(info), Number.NEGATIVE_INFINITY));
    return reduce(backend, "max", elements, [2], info.outShape);
  });
}

/** A mean divides by the elements of its window, and not by places of the padding. */
function avgPool3d({ inputs: { x }, attrs, backend }: Call<"x", Pool3dAttributes>): TensorInfo {
  const info = pool3dInfo(x.shape, attrs);
  const geometry = windowsOf3d(info);
  return compose(backend, (made) => {
    const floats = made(asType(backend, x, "float32"));
    const elements = made(unfold(backend, floats, geometry, 0));
    const sums = made(reduce(backend, "sum", elements, [2], info.outShape));
    const counts = made(countsOf(backend, geometry));
    // A window without elements has the mean 0 here.
    return elementwise(backend, "float32", [sums, counts], (e, sum, count) =>
      e.binary("div", sum!, e.binary("max", count!, e.constant(1))),
    );
  });
}

/** The largest whole number of each window: core pools floats only. */
export function maxPoolIntegers(
  backend: BackplaneBackend,
  x: TensorInfo,
  info: backend_util.Conv2DInfo,
): TensorInfo {
  return compose(backend, (made) => {
    const integers = made(asType(backend, x, "int32"));
    const elements = made(unfold(backend, integers, windowsOf2d(info), -(2 ** 31)));
    return reduce(backend, "max", elements, [2], info.outShape);
  });
}

/** How many elements each window has, apart from places of the padding: [1, ...out, 1]. */
function countsOf(backend: BackplaneBackend, geometry: Windows): TensorInfo {
  return compose(backend, (made) => {
    const ones = made(backend.make([1, ...geometry.extents, 1], "float32", 1));
    const counted = made(unfold(backend, ones, { ...geometry, batch: 1, channels: 1 }, 0));
    return reduce(backend, "sum", counted, [2], [1, ...geometry.out, 1]);
  });
}

/** The places of the largest element of each window: i32 [batch, windows, channels]. */
function largestOf(backend: BackplaneBackend, elements: TensorInfo): TensorInfo {
  const { shape } = elements;
  const input = backend.place(elements);
  const output = backend.output(shape.toSpliced(2, 1), "int32");
  backend.compute.argReduce({ kind: "argMax", shape, axis: 2, input, output: output.handle });
  return output;
}

/** Values [batch, windows, channels] at the given place of each window, and 0 elsewhere. */
function spread(
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

function maxPool3dGrad({
  inputs: { dy, input },
  attrs,
  backend,
}: Call<"dy" | "input", Pool3dAttributes>): TensorInfo {
  const geometry = windowsOf3d(pool3dInfo(input.shape, attrs));
  return compose(backend, (made) => {
    const floats = made(asType(backend, input, "float32"));
    const elements = made(unfold(backend, floats, geometry, Number.NEGATIVE_INFINITY));
    const places = made(largestOf(backend, elements));
    return fold(backend, made(spread(backend, dy, places, elements.shape)), geometry);
  });
}

/** As TensorFlow.js has it, each place of a window gets an equal part, those of the padding too. */
function avgPool3dGrad({
  inputs: { dy, input },
  attrs,
  backend,
}: Call<"dy" | "input", Pool3dAttributes>): TensorInfo {
  const geometry = windowsOf3d(pool3dInfo(input.shape, attrs));
  const { windows, places } = sizesOf(geometry);
  const { batch, channels } = geometry;
  return compose(backend, (made) => {
    const parts = elementwise(
      backend,
      "float32",
      [{ ...dy, shape: [batch, windows, 1, channels] }],
      (e, value) => e.binary("mul", e.convert("f32", value!), e.number(1 / places)),
      [batch, windows, places, channels],
    );
    return fold(backend, made(parts), geometry);
  });
}

interface DilationAttributes {
  readonly strides: [number, number] | number;
  readonly pad: "valid" | "same" | number;
  readonly dilations: [number, number] | number;
}

function dilationInfo(
  x: TensorInfo,
  filter: TensorInfo,
  { strides, pad: padding, dilations }: DilationAttributes,
) {
  const info = backend_util.computeDilation2DInfo(
    x.shape as [number, number, number, number],
    filter.shape as [number, number, number],
    ...([strides, padding, "NHWC", dilations] as const),
  );
  return { geometry: windowsOf2d(info), outShape: info.outShape };
}

/** The elements of windows with those of the filter added: [batch, windows, places, channels]. */
function raised(backend: BackplaneBackend, x: TensorInfo, filter: TensorInfo, geometry: Windows): TensorInfo {
  const { places } = sizesOf(geometry);
  return compose(backend, (made) => {
    const elements = made(unfold(backend, x, geometry, Number.NEGATIVE_INFINITY));
    const heights = { ...filter, shape: [places, geometry.channels] };
    return elementwise(backend, "float32", [elements, heights], (e, element, height) =>
      e.binary("add", e.convert("f32", element!), e.convert("f32", height!)),
    );
  });
}

type DilationInputs = "x" | "filter";

function dilation2d({
  inputs: { x, filter },
  attrs,
  backend,
}: Call<DilationInputs, DilationAttributes>): TensorInfo {
  const { geometry, outShape } = dilationInfo(x, filter, attrs);
  return compose(backend, (made) => {
    const floats = made(asType(backend, x, "float32"));
    const result = reduce(backend, "max", made(raised(backend, floats, filter, geometry)), [2], outShape);
    if (x.dtype === "float32") return result;
    made(result);
    return asType(backend, result, x.dtype as DeviceType);
  });
}

/** The gradient of each place of each window: that of the result at the largest one. */
function dilationGradient(
  backend: BackplaneBackend,
  { x, filter, dy }: Call<DilationInputs | "dy">["inputs"],
  geometry: Windows,
): TensorInfo {
  return compose(backend, (made) => {
    const floats = made(asType(backend, x, "float32"));
    const elements = made(raised(backend, floats, filter, geometry));
    const places = made(largestOf(backend, elements));
    return spread(backend, dy, places, elements.shape);
  });
}

type Lrn = Readonly<Record<"depthRadius" | "bias" | "alpha" | "beta", number>>;

/** The sums over the channels that are near: [pixels, channels]. */
function channelSums(backend: BackplaneBackend, x: TensorInfo, radius: number): TensorInfo {
  const channels = x.shape.at(-1)!;
  const geometry: Windows = {
    ...{ batch: channels === 0 ? 0 : elementCount(x.shape) / channels, channels: 1, extents: [channels] },
    ...{ kernel: [2 * radius + 1], stride: [1], dilation: [1], before: [radius], out: [channels] },
  };
  return compose(backend, (made) =>
    reduce(backend, "sum", made(unfold(backend, x, geometry, 0)), [2], x.shape),
  );
}

/** bias + alpha times the sum of the squares of near channels. */
function lrnNorm(backend: BackplaneBackend, x: TensorInfo, { depthRadius, bias, alpha }: Lrn): TensorInfo {
  return compose(backend, (made) => {
    const squares = made(
      elementwise(backend, "float32", [x], (e, value) => e.unary("square", e.convert("f32", value))),
    );
    const sums = made(channelSums(backend, squares, depthRadius));
    return elementwise(backend, "float32", [sums], (e, sum) =>
      e.binary("add", e.number(bias), e.binary("mul", e.number(alpha), sum)),
    );
  });
}

/** Divides by a power of the norm of near channels. */
function lrn({ inputs: { x }, attrs, backend }: Call<"x", Lrn>): TensorInfo {
  return compose(backend, (made) => {
    const norm = made(lrnNorm(backend, x, attrs));
    return elementwise(backend, "float32", [x, norm], (e, value, sum) =>
      e.binary("mul", e.convert("f32", value!), e.binary("pow", sum!, e.number(-attrs.beta))),
    );
  });
}

function lrnGrad({ inputs: { x, y, dy }, attrs, backend }: Call<"x" | "y" | "dy", Lrn>): TensorInfo {
  const { depthRadius, alpha, beta } = attrs;
  return compose(backend, (made) => {
    const norm = made(lrnNorm(backend, x, attrs));
    const parts = made(
      elementwise(backend, "float32", [dy, y, norm], (e, gradient, value, sum) =>
        e.binary("div", e.binary("mul", gradient!, value!), sum!),
      ),
    );
    const sums = made(channelSums(backend, parts, depthRadius));
    return elementwise(backend, "float32", [dy, norm, x, sums], (e, gradient, sum, value, near) =>
      e.binary(
        "sub",
        e.binary("mul", gradient!, e.binary("pow", sum!, e.number(-beta))),
        e.binary("mul", e.number(2 * alpha * beta), e.binary("mul", value!, near!)),
      ),
    );
  });
}

export const windowKernels: Kernels = {
  Conv3D: conv3d,
  Conv3DBackpropFilterV2: conv3dBackpropFilter,
  Conv3DBackpropInputV2: conv3dBackpropInput,
  MaxPool3D: maxPool3d,
  MaxPool3DGrad: maxPool3dGrad,
  AvgPool3D: avgPool3d,
  AvgPool3DGrad: avgPool3dGrad,
  Dilation2D: dilation2d,
  Dilation2DBackpropInput: ({ inputs, attrs, backend }: Call<DilationInputs | "dy", DilationAttributes>) => {
    const { geometry } = dilationInfo(inputs.x, inputs.filter, attrs);
    return compose(backend, (made) =>
      fold(backend, made(dilationGradient(backend, inputs, geometry)), geometry),
    );
  },
  Dilation2DBackpropFilter: ({ inputs, attrs, backend }: Call<DilationInputs | "dy", DilationAttributes>) => {
    const { geometry } = dilationInfo(inputs.x, inputs.filter, attrs);
    return compose(backend, (made) =>
      reduce(backend, "sum", made(dilationGradient(backend, inputs, geometry)), [0, 1], inputs.filter.shape),
    );
  },
  LRN: lrn,
  LRNGrad: lrnGrad,
};
