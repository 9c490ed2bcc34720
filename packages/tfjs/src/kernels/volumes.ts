import { backend_util, type TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { elementwise, typed } from "./elementwise.js";
import { type Call, compose, type Kernels } from "./kernel.js";
import { reduce } from "./reduce.js";
import { fold, largestOf, sizesOf, spread, unfold, type Windows } from "./windows.js";

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
    const images = typed(backend, made, x, "float32");
    const weights = typed(backend, made, filter, "float32");
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
    const images = typed(backend, made, x, "float32");
    const gradients = typed(backend, made, dy, "float32");
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
    const gradients = typed(backend, made, dy, "float32");
    const weights = typed(backend, made, filter, "float32");
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
  const isFloat = x.dtype === "float32";
  return compose(backend, (made) => {
    const numbers = typed(backend, made, x, isFloat ? "float32" : "int32");
    const least = isFloat ? Number.NEGATIVE_INFINITY : -(2 ** 31);
    const elements = made(unfold(backend, numbers, windowsOf3d(info), least));
    return reduce(backend, "max", elements, [2], info.outShape);
  });
}

/** A mean divides by the elements of its window, and not by places of the padding. */
function avgPool3d({ inputs: { x }, attrs, backend }: Call<"x", Pool3dAttributes>): TensorInfo {
  const info = pool3dInfo(x.shape, attrs);
  const geometry = windowsOf3d(info);
  return compose(backend, (made) => {
    const floats = typed(backend, made, x, "float32");
    const elements = made(unfold(backend, floats, geometry, 0));
    const sums = made(reduce(backend, "sum", elements, [2], info.outShape));
    const counts = made(countsOf(backend, geometry));
    // A window without elements has the mean 0 here.
    return elementwise(backend, "float32", [sums, counts], (e, sum, count) =>
      e.binary("div", sum!, e.binary("max", count!, e.constant(1))),
    );
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

function maxPool3dGrad({
  inputs: { dy, input },
  attrs,
  backend,
}: Call<"dy" | "input", Pool3dAttributes>): TensorInfo {
  const geometry = windowsOf3d(pool3dInfo(input.shape, attrs));
  return compose(backend, (made) => {
    const floats = typed(backend, made, input, "float32");
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

/** Convolutions and pooling of volumes. */
export const volumeKernels: Kernels = {
  Conv3D: conv3d,
  Conv3DBackpropFilterV2: conv3dBackpropFilter,
  Conv3DBackpropInputV2: conv3dBackpropInput,
  MaxPool3D: maxPool3d,
  MaxPool3DGrad: maxPool3dGrad,
  AvgPool3D: avgPool3d,
  AvgPool3DGrad: avgPool3dGrad,
};
