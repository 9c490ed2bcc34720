import { type Case, type CaseOptions, operationCase, sumOfProducts } from "./case.js";
import type { ConvolutionSize } from "./conv2d.js";

/** The extents of a convolution, and its arguments. */
function geometryOf({
  batch,
  channels,
  size,
  filters,
  kernel,
  stride = 1,
  depthwise = false,
}: ConvolutionSize) {
  const padding = (kernel - 1) / 2;
  const outSize = Math.floor((size - 1) / stride) + 1;
  const groups = depthwise ? channels : 1;
  const inputShape = [batch, channels, size, size] as const;
  const filterShape = [filters, channels / groups, kernel, kernel] as const;
  const kind = `${depthwise ? "depthwise " : ""}${kernel}x${kernel}${stride === 1 ? "" : ` stride ${stride}`}`;
  const product = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
  return {
    ...{ padding, outSize, groups, stride, own: channels / groups, each: filters / groups },
    name: `${inputShape.join("x")}, ${kind} to ${filters}`,
    inputs: product(inputShape),
    weights: product(filterShape),
    outputs: batch * filters * outSize ** 2,
    problem: { inputShape, filterShape, stride, padding, groups },
    args: {
      ...{ inputShape, filterShape, groups, stride: [stride, stride] as const },
      padding: [padding, padding, padding, padding] as const,
    },
  };
}

/** The gradient with respect to the input. */
export function conv2dInputGradient(convolution: ConvolutionSize, options: CaseOptions = {}): Case {
  const { channels, size, filters, kernel } = convolution;
  const { name, args, problem, inputs, weights, outputs, ...g } = geometryOf(convolution);
  return operationCase({
    ...{ name, operation: "conv2dInputGradient", dtype: "f32", problem },
    inputs: { outputGradient: outputs, filter: weights },
    output: { argument: "inputGradient", elements: inputs },
    args: ({ outputGradient, filter, inputGradient }) => ({
      ...args,
      ...{ outputGradient: outputGradient!, filter: filter!, inputGradient: inputGradient! },
    }),
    expected({ outputGradient, filter }, index) {
      const [column, row] = [index % size, Math.floor(index / size) % size];
      const channel = Math.floor(index / size ** 2) % channels;
      const image = Math.floor(index / (size ** 2 * channels));
      const group = Math.floor(channel / g.own);
      let [value, magnitude] = [0, 0];
      for (let o = group * g.each; o < (group + 1) * g.each; o++)
        for (let i = 0; i < kernel; i++)
          for (let j = 0; j < kernel; j++) {
            const [y, x] = [(row + g.padding - i) / g.stride, (column + g.padding - j) / g.stride];
            if (!Number.isInteger(y) || !Number.isInteger(x)) continue;
            if (y < 0 || y >= g.outSize || x < 0 || x >= g.outSize) continue;
            const weight = filter!.at(((o * g.own + (channel % g.own)) * kernel + i) * kernel + j);
            const term = weight * outputGradient!.at(((image * filters + o) * g.outSize + y) * g.outSize + x);
            value += term;
            magnitude += Math.abs(term);
          }
      return sumOfProducts("f32", value, magnitude, g.each * kernel * kernel);
    },
    ...options,
  });
}

/** The gradient with respect to the filter. */
export function conv2dFilterGradient(convolution: ConvolutionSize, options: CaseOptions = {}): Case {
  const { batch, channels, size, filters, kernel } = convolution;
  const { name, args, problem, inputs, weights, outputs, ...g } = geometryOf(convolution);
  return operationCase({
    ...{ name, operation: "conv2dFilterGradient", dtype: "f32", problem },
    inputs: { input: inputs, outputGradient: outputs },
    output: { argument: "filterGradient", elements: weights },
    args: ({ input, outputGradient, filterGradient }) => ({
      ...args,
      ...{ input: input!, outputGradient: outputGradient!, filterGradient: filterGradient! },
    }),
    expected({ input, outputGradient }, index) {
      const [j, i] = [index % kernel, Math.floor(index / kernel) % kernel];
      const own = Math.floor(index / kernel ** 2) % g.own;
      const o = Math.floor(index / (kernel ** 2 * g.own));
      const channel = Math.floor(o / g.each) * g.own + own;
      let [value, magnitude] = [0, 0];
      for (let image = 0; image < batch; image++)
        for (let y = 0; y < g.outSize; y++)
          for (let x = 0; x < g.outSize; x++) {
            const [row, column] = [y * g.stride + i - g.padding, x * g.stride + j - g.padding];
            if (row < 0 || row >= size || column < 0 || column >= size) continue;
            const term =
              input!.at(((image * channels + channel) * size + row) * size + column) *
              outputGradient!.at(((image * filters + o) * g.outSize + y) * g.outSize + x);
            value += term;
            magnitude += Math.abs(term);
          }
      return sumOfProducts("f32", value, magnitude, batch * g.outSize ** 2);
    },
    ...options,
  });
}

/** Both gradients. */
export function conv2dGradients(convolution: ConvolutionSize, options: CaseOptions = {}): readonly Case[] {
  return [conv2dInputGradient(convolution, options), conv2dFilterGradient(convolution, options)];
}
