import { permuted } from "./layout.js";
import type {
  ConvolutionGradientProblem,
  ConvolutionProblem,
  PoolProblem,
  ResizeProblem,
} from "./problem.js";
import type { Extents, Prepared, Tensor, Tfjs } from "./tfjs-api.js";

/** What one library calls a transposed convolution. Images are NHWC. */
export function transposedConvolution(
  tf: Tfjs,
  { inputShape, filterShape, stride, padding, groups }: ConvolutionGradientProblem,
  array: (name: string) => Float32Array,
): Prepared {
  if (groups > 1) throw new Error("tfjs has no transposed convolution in groups");
  const [images, channels, height, width] = inputShape;
  const [filters, , kernelHeight, kernelWidth] = filterShape;
  const extent = (size: number, kernel: number) => Math.floor((size + 2 * padding - kernel) / stride) + 1;
  const shape = [images, filters, extent(height, kernelHeight), extent(width, kernelWidth)];
  const last = [0, 2, 3, 1];
  const outputGradient = tf.tensor(
    permuted(array("outputGradient"), shape, last),
    last.map((axis) => shape[axis]!),
  );
  const places = [2, 3, 1, 0];
  const filter = tf.tensor(
    permuted(array("filter"), filterShape, places),
    places.map((axis) => filterShape[axis]!),
  );
  const output = [images, height, width, channels];
  return {
    how: "conv2dTranspose, NHWC",
    tensors: { outputGradient, filter },
    compute: () => tf.conv2dTranspose(outputGradient, filter, output, stride, padding, "floor"),
    order: (data, of) => permuted(data, of, [0, 3, 1, 2]),
  };
}

/** Images are NHWC. */
export function image(
  tf: Tfjs,
  problem: PoolProblem | ResizeProblem,
  array: (name: string) => Float32Array,
): Prepared {
  const { inputShape, layout } = problem;
  const data = array("input");
  const last = [0, 2, 3, 1];
  const input =
    layout === "NHWC"
      ? tf.tensor(data, inputShape)
      : tf.tensor(
          permuted(data, inputShape, last),
          last.map((axis) => inputShape[axis]!),
        );
  const prepared = (how: string, compute: () => Tensor): Prepared => ({
    ...{ how: `${how}, NHWC`, tensors: { input }, compute },
    ...(layout === "NHWC" ? {} : { order: (data, shape) => permuted(data, shape, [0, 3, 1, 2]) }),
  });
  if (problem.operation === "resize2d") {
    const { kind, outputHeight, outputWidth } = problem;
    const how = kind === "bilinear" ? "resizeBilinear" : "resizeNearestNeighbor";
    return prepared(how, () => tf.image[how](input, [outputHeight, outputWidth], false, true));
  }
  const { kind, kernel, stride = kernel, padding: [top, left, bottom, right] = [0, 0, 0, 0] } = problem;
  const how = kind === "max" ? "maxPool" : "avgPool";
  const sides = [
    [0, 0],
    [top, bottom],
    [left, right],
    [0, 0],
  ];
  return prepared(how, () => tf[how](input, kernel, stride, sides, "floor"));
}

/** Images are NHWC, as tfjs has them on the CPU, with filters to match. */
export function convolution(
  tf: Tfjs,
  { inputShape, filterShape, stride, padding, groups }: ConvolutionProblem,
  array: (name: string) => Float32Array,
): Prepared {
  const depthwise = groups > 1;
  if (depthwise && (groups !== inputShape[1] || filterShape[0] !== groups))
    throw new Error("tfjs has no convolution in groups of several channels");
  const tensor = (data: Float32Array, shape: Extents, axes: Extents) =>
    tf.tensor(
      permuted(data, shape, axes),
      axes.map((axis) => shape[axis]!),
    );
  const input = tensor(array("input"), inputShape, [0, 2, 3, 1]);
  // A depthwise filter has its channels in the place of a group's channels, and one filter for each.
  const filter = tensor(array("filter"), filterShape, depthwise ? [2, 3, 0, 1] : [2, 3, 1, 0]);
  const operation = depthwise ? "depthwiseConv2d" : "conv2d";
  return {
    how: `${operation}, NHWC`,
    tensors: { input, filter },
    compute: () => tf[operation](input, filter, stride, padding, "NHWC", 1, "floor"),
    order: (data, shape) => permuted(data, shape, [0, 3, 1, 2]),
  };
}
