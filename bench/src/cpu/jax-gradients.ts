import type { Extents, Jax } from "./jax-api.js";
import { attention, convolution, normalize, type Prepared, pool2d } from "./jax-problems.js";
import type { ConvolutionGradientProblem, GradientProblem } from "./problem.js";

/** The function whose gradient is wanted, compiled; its way back is compiled with it. */
export function prepareGradient(jax: Jax, problem: GradientProblem): Prepared {
  const { numpy, nn, lax } = jax;
  switch (problem.operation) {
    case "softmaxGradient": {
      const { shape, axis } = problem;
      const compute = (input: Parameters<typeof nn.softmax>[0]) => nn.softmax(input, axis);
      return { how: "vjp of softmax", shapes: { input: shape }, compute, gradient: outputGradient(shape) };
    }
    case "normalizeGradient": {
      const { rows, size } = problem;
      const forward = normalize(numpy, nn, { ...problem, operation: "normalize" });
      // Neither has a bias: here it is 0.
      const bias = problem.kind === "layer" ? { more: () => [numpy.zeros([size])] } : {};
      const shapes = { input: [rows, size], weight: [size] };
      const how = `vjp of ${forward.how}`;
      return { ...forward, ...bias, how, shapes, gradient: outputGradient([rows, size]) };
    }
    case "pool2dGradient": {
      const { inputShape, kernel, stride = kernel, padding = [0, 0, 0, 0] } = problem;
      const [images, channels, height, width] = inputShape;
      const [top, left, bottom, right] = padding;
      const extent = (size: number, axis: 0 | 1) => Math.floor((size - kernel[axis]) / stride[axis]) + 1;
      const shape = [images, channels, extent(height + top + bottom, 0), extent(width + left + right, 1)];
      const forward = pool2d(numpy, lax, problem);
      return { ...forward, how: `vjp of ${forward.how}`, gradient: outputGradient(shape) };
    }
    case "conv2dInputGradient":
    case "conv2dFilterGradient":
      return ofConvolution(jax, problem);
    case "attentionGradient": {
      const { heads, length, headSize, causal } = problem;
      const sizes = { batch: 1, heads, kvHeads: heads, queries: length, keys: length, headSize, causal };
      const shape = [1, heads, length, headSize];
      const forward = attention(nn, { operation: "attention", ...sizes });
      return { ...forward, how: `vjp of ${forward.how}`, gradient: { name: "outGradient", shape } };
    }
  }
}

function outputGradient(shape: Extents): Prepared["gradient"] & {} {
  return { name: "outputGradient", shape };
}

/** By one of both arguments; the other one is part of the function. */
function ofConvolution({ lax, numpy }: Jax, problem: ConvolutionGradientProblem): Prepared {
  const { inputShape, filterShape, stride, padding } = problem;
  const [images, , height, width] = inputShape;
  const [filters, , kernelHeight, kernelWidth] = filterShape;
  const extent = (size: number, kernel: number) => Math.floor((size + 2 * padding - kernel) / stride) + 1;
  const gradient = outputGradient([
    ...[images, filters, extent(height, kernelHeight), extent(width, kernelWidth)],
  ]);
  const apply = convolution(lax, problem);
  const isOfInput = problem.operation === "conv2dInputGradient";
  const how = `vjp of convGeneralDilated by the ${isOfInput ? "input" : "filter"}`;
  // A linear function has the same gradient everywhere.
  const anywhere = () => [numpy.zeros(isOfInput ? inputShape : filterShape)];
  return isOfInput
    ? {
        ...{ how, shapes: { filter: filterShape }, more: anywhere, gradient },
        ...{ compute: (filter, input) => apply(input!, filter!), by: 1 },
      }
    : {
        ...{ how, shapes: { input: inputShape }, more: anywhere, gradient },
        ...{ compute: (input, filter) => apply(input!, filter!), by: 1 },
      };
}
