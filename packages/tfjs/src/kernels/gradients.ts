import { type TensorInfo, util } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { elementCount } from "../elements.js";
import { typed } from "./elementwise.js";
import {
  type Conv2dInfo,
  type ConvAttributes,
  conv2dInfo,
  convolutionOf,
  coreFilter,
  filterAxes,
  type ResizeAttributes,
  resizingOf,
} from "./images.js";
import { type Call, compose, type Kernels } from "./kernel.js";
import { slice } from "./moves.js";
import { type PoolAttributes, pool2dInfo, poolingOf } from "./pooling.js";

/** The gradient of a convolution by its images, which is also the transposed convolution. */
function inputGradient(
  backend: BackplaneBackend,
  dy: TensorInfo,
  filter: TensorInfo,
  info: Conv2dInfo,
  isDepthwise: boolean,
): TensorInfo {
  return compose(backend, (made) => {
    let gradients = typed(backend, made, dy, "float32");
    // TensorFlow.js lets gradients have more rows and columns than there are windows: those are no gradients of any.
    if (!util.arraysEqual(dy.shape, info.outShape))
      gradients = made(slice(backend, gradients, [0, 0, 0, 0], info.outShape));
    const weights = typed(backend, made, filter, "float32");
    const [outputGradient, place] = [backend.place(gradients), coreFilter(backend, weights, isDepthwise)];
    const output = backend.output(info.inShape, "float32");
    backend.compute.conv2dInputGradient({
      ...convolutionOf(info, isDepthwise),
      outputGradient,
      filter: place,
      inputGradient: output.handle,
    });
    return output;
  });
}

/** The gradient of a convolution by its filter, whose axes are brought into the order of TensorFlow.js. */
function filterGradient(
  backend: BackplaneBackend,
  x: TensorInfo,
  dy: TensorInfo,
  filterShape: readonly number[],
  info: Conv2dInfo,
  isDepthwise: boolean,
): TensorInfo {
  return compose(backend, (made) => {
    const images = typed(backend, made, x, "float32");
    const gradients = typed(backend, made, dy, "float32");
    const [input, outputGradient] = [backend.place(images), backend.place(gradients)];
    const { shape, strides } = filterAxes(filterShape, isDepthwise);
    const inCoreOrder = made(backend.output(shape, "float32"));
    backend.compute.conv2dFilterGradient({
      ...convolutionOf(info, isDepthwise),
      input,
      outputGradient,
      filterGradient: inCoreOrder.handle,
    });
    const output = backend.output(filterShape, "float32");
    if (elementCount(filterShape) > 0)
      backend.compute.copy({
        shape,
        input: inCoreOrder.handle,
        output: output.handle,
        outputStrides: strides,
      });
    return output;
  });
}

interface ToInput extends ConvAttributes {
  readonly inputShape: number[];
}

interface ToFilter extends ConvAttributes {
  readonly filterShape: number[];
}

function toInput(isDepthwise: boolean): (call: Call<"dy" | "filter", ToInput>) => TensorInfo {
  return ({ inputs: { dy, filter }, attrs, backend }) => {
    const info = conv2dInfo(attrs.inputShape, filter.shape, attrs, isDepthwise);
    return inputGradient(backend, dy, filter, info, isDepthwise);
  };
}

function toFilter(isDepthwise: boolean): (call: Call<"x" | "dy", ToFilter>) => TensorInfo {
  return ({ inputs: { x, dy }, attrs, backend }) => {
    const info = conv2dInfo(x.shape, attrs.filterShape, attrs, isDepthwise);
    return filterGradient(backend, x, dy, attrs.filterShape, info, isDepthwise);
  };
}

/** TensorFlow.js keeps no places of maxima: they are found again. */
function maxPoolGrad({
  inputs: { dy, input },
  attrs,
  backend,
}: Call<"dy" | "input", PoolAttributes>): TensorInfo {
  const info = pool2dInfo(input.shape, attrs);
  return compose(backend, (made) => {
    const images = typed(backend, made, input, "float32");
    const gradients = typed(backend, made, dy, "float32");
    const [place, outputGradient] = [backend.place(images), backend.place(gradients)];
    const largest = made(backend.output(info.outShape, "float32"));
    const places = made(backend.output(info.outShape, "int32"));
    backend.compute.pool2d({
      kind: "max",
      ...poolingOf(info),
      input: place,
      output: largest.handle,
      indices: places.handle,
    });
    const output = backend.output(info.inShape, "float32");
    backend.compute.pool2dGradient({
      kind: "max",
      ...poolingOf(info),
      indices: places.handle,
      outputGradient,
      inputGradient: output.handle,
    });
    return output;
  });
}

/** Of places of the padding, too, as TensorFlow.js has it: each element of a window gets an equal part of all places. */
function avgPoolGrad({
  inputs: { dy, input },
  attrs,
  backend,
}: Call<"dy" | "input", PoolAttributes>): TensorInfo {
  const info = pool2dInfo(input.shape, attrs);
  return compose(backend, (made) => {
    const outputGradient = backend.place(typed(backend, made, dy, "float32"));
    const output = backend.output(info.inShape, "float32");
    backend.compute.pool2dGradient({
      kind: "mean",
      ...poolingOf(info),
      countPadding: true,
      outputGradient,
      inputGradient: output.handle,
    });
    return output;
  });
}

function resizeGrad(
  kind: "bilinear" | "nearest",
): (call: Call<"images" | "dy", ResizeAttributes>) => TensorInfo {
  return ({ inputs: { images, dy }, attrs, backend }) => {
    const [, height, width] = dy.shape as [number, number, number, number];
    return compose(backend, (made) => {
      const outputGradient = backend.place(typed(backend, made, dy, "float32"));
      const output = backend.output(images.shape, "float32");
      backend.compute.resize2dGradient({
        kind,
        ...resizingOf(images.shape, { ...attrs, size: [height, width] }),
        outputGradient,
        inputGradient: output.handle,
      });
      return output;
    });
  };
}

export const gradientKernels: Kernels = {
  Conv2DBackpropInput: toInput(false),
  Conv2DBackpropFilter: toFilter(false),
  DepthwiseConv2dNativeBackpropInput: toInput(true),
  DepthwiseConv2dNativeBackpropFilter: toFilter(true),
  MaxPoolGrad: maxPoolGrad,
  AvgPoolGrad: avgPoolGrad,
  ResizeBilinearGrad: resizeGrad("bilinear"),
  ResizeNearestNeighborGrad: resizeGrad("nearest"),
};
