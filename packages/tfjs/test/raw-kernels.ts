import * as tf from "@tensorflow/tfjs-core";

/* Kernels that programs do not call by name with tensors of whole numbers, but that have to take them. */

export interface RawCase {
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  readonly attributes: tf.NamedAttrMap;
}

const pool = { filterSize: 2, strides: 1, pad: "valid" };
const dilation = { strides: 1, pad: "same", dilations: 1 };
const resize = { alignCorners: false, halfPixelCenters: false };
const convolution = { strides: 1, pad: "same", dataFormat: "NHWC", dilations: 1 };
const normalization = { depthRadius: 1, bias: 1, alpha: 0.001, beta: 0.75 };

const images = [1, 3, 3, 1];
const volumes = [1, 3, 3, 3, 1];
const raised = { x: images, filter: [2, 2, 1], dy: images };

/** By the name of the kernel, and what is special about the call. Results are float32. */
export const rawCases: Readonly<Record<string, RawCase>> = {
  MaxPoolGrad: {
    shapes: { dy: [1, 2, 2, 1], input: images, output: [1, 2, 2, 1] },
    attributes: pool,
  },
  AvgPool: { shapes: { x: images }, attributes: pool },
  "AvgPool of one element": { shapes: { x: images }, attributes: { ...pool, filterSize: 1 } },
  AvgPoolGrad: { shapes: { dy: [1, 2, 2, 1], input: images }, attributes: pool },
  ResizeBilinearGrad: { shapes: { dy: [1, 6, 6, 1], images }, attributes: resize },
  ResizeNearestNeighborGrad: { shapes: { dy: [1, 6, 6, 1], images }, attributes: resize },
  AvgPool3D: { shapes: { x: volumes }, attributes: pool },
  MaxPool3DGrad: { shapes: { dy: [1, 2, 2, 2, 1], input: volumes }, attributes: pool },
  AvgPool3DGrad: { shapes: { dy: [1, 2, 2, 2, 1], input: volumes }, attributes: pool },
  Dilation2DBackpropInput: { shapes: raised, attributes: dilation },
  Dilation2DBackpropFilter: { shapes: raised, attributes: dilation },
  LRN: { shapes: { x: [1, 2, 2, 3] }, attributes: normalization },
  LRNGrad: {
    shapes: { x: [1, 2, 2, 3], y: [1, 2, 2, 3], dy: [1, 2, 2, 3] },
    attributes: normalization,
  },
  Atan2: { shapes: { a: [4], b: [4] }, attributes: {} },
  EluGrad: { shapes: { dy: [4], y: [4] }, attributes: {} },
  Conv2D: { shapes: { x: images, filter: [2, 2, 1, 2] }, attributes: convolution },
  FusedConv2D: {
    shapes: { x: images, filter: [2, 2, 1, 2], bias: [2], preluActivationWeights: [2] },
    attributes: { ...convolution, activation: "prelu" },
  },
  Conv2DBackpropInput: {
    shapes: { dy: [1, 3, 3, 2], filter: [2, 2, 1, 2] },
    attributes: { ...convolution, inputShape: images },
  },
  Conv2DBackpropFilter: {
    shapes: { x: images, dy: [1, 3, 3, 2] },
    attributes: { ...convolution, filterShape: [2, 2, 1, 2] },
  },
  CropAndResize: {
    shapes: { image: [1, 3, 3, 2], boxes: [1, 4], boxInd: [1] },
    attributes: { cropSize: [2, 2], method: "bilinear", extrapolationValue: 5 },
  },
  Transform: {
    shapes: { image: [1, 3, 3, 2], transforms: [1, 8] },
    attributes: { interpolation: "bilinear", fillMode: "reflect", fillValue: 0 },
  },
  FusedBatchNorm: {
    shapes: { x: [3, 2], mean: [2], variance: [1], offset: [2], scale: [2] },
    attributes: { varianceEpsilon: 1000 },
  },
  Softmax: { shapes: { logits: [2, 3] }, attributes: { dim: 1 } },
};

/** Calls the kernel with small whole numbers as tensors of a type. */
export function runRaw(name: string, { shapes, attributes }: RawCase, dtype: "int32" | "float32"): tf.Tensor {
  const inputs = Object.entries(shapes).map(([input, shape]) => {
    const length = shape.reduce((product, extent) => product * extent, 1);
    const values = Array.from({ length }, (_, i) => (input === "boxInd" ? 0 : ((i * 7) % 11) - 3));
    return [input, tf.tensor(values, [...shape], input === "boxInd" ? "int32" : dtype)] as const;
  });
  const [kernel] = name.split(" ") as [string];
  return tf.engine().runKernel(kernel, Object.fromEntries(inputs), attributes) as tf.Tensor;
}
