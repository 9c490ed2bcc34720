import { type Case, type CaseOptions, operationCase, sumOfProducts } from "./case.js";

export interface ConvolutionSize {
  readonly batch: number;
  readonly channels: number;
  /** Height and width. */
  readonly size: number;
  readonly filters: number;
  /** Height and width, odd; the input is padded so that its middle visits every element. */
  readonly kernel: number;
  readonly stride?: number;
  /** One filter for each channel. */
  readonly depthwise?: boolean;
}

export function conv2d(convolution: ConvolutionSize, options: CaseOptions = {}): Case {
  const { batch, channels, size, filters, kernel, stride = 1, depthwise = false } = convolution;
  const padding = (kernel - 1) / 2;
  const outSize = Math.floor((size - 1) / stride) + 1;
  const groups = depthwise ? channels : 1;
  const own = channels / groups;
  const inputShape = [batch, channels, size, size] as const;
  const filterShape = [filters, own, kernel, kernel] as const;
  const kind = `${depthwise ? "depthwise " : ""}${kernel}x${kernel}${stride === 1 ? "" : ` stride ${stride}`}`;
  const product = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
  return operationCase({
    name: `${inputShape.join("x")}, ${kind} to ${filters}`,
    operation: "conv2d",
    dtype: "f32",
    inputs: { input: product(inputShape), filter: product(filterShape) },
    output: { argument: "output", elements: batch * filters * outSize * outSize },
    args: ({ input, filter, output }) => ({
      inputShape,
      filterShape,
      stride: [stride, stride],
      padding: [padding, padding, padding, padding],
      groups,
      input: input!,
      filter: filter!,
      output: output!,
    }),
    expected({ input, filter }, index) {
      const [x, y] = [index % outSize, Math.floor(index / outSize) % outSize];
      const outChannel = Math.floor(index / outSize ** 2) % filters;
      const image = Math.floor(index / (outSize ** 2 * filters));
      const firstChannel = image * channels + Math.floor(outChannel / (filters / groups)) * own;
      let value = 0;
      let magnitude = 0;
      for (let c = 0; c < own; c++)
        for (let i = 0; i < kernel; i++)
          for (let j = 0; j < kernel; j++) {
            const [row, column] = [y * stride + i - padding, x * stride + j - padding];
            if (row < 0 || row >= size || column < 0 || column >= size) continue;
            const weight = filter!.at(((outChannel * own + c) * kernel + i) * kernel + j);
            const term = weight * input!.at(((firstChannel + c) * size + row) * size + column);
            value += term;
            magnitude += Math.abs(term);
          }
      return sumOfProducts("f32", value, magnitude, own * kernel * kernel);
    },
    problem: { inputShape, filterShape, stride, padding, groups },
    ...options,
  });
}
