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
  /** Default: NCHW. */
  readonly layout?: "NCHW" | "NHWC";
}

export function conv2d(convolution: ConvolutionSize, options: CaseOptions = {}): Case {
  const {
    batch,
    channels,
    size,
    filters,
    kernel,
    stride = 1,
    depthwise = false,
    layout = "NCHW",
  } = convolution;
  const padding = (kernel - 1) / 2;
  const outSize = Math.floor((size - 1) / stride) + 1;
  const groups = depthwise ? channels : 1;
  const own = channels / groups;
  const isLast = layout === "NHWC";
  const planesShape = [batch, channels, size, size] as const;
  const inputShape = isLast ? ([batch, size, size, channels] as const) : planesShape;
  const filterShape = [filters, own, kernel, kernel] as const;
  const kind = `${depthwise ? "depthwise " : ""}${kernel}x${kernel}${stride === 1 ? "" : ` stride ${stride}`}`;
  const product = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
  return operationCase({
    name: `${inputShape.join("x")}${isLast ? " NHWC" : ""}, ${kind} to ${filters}`,
    operation: "conv2d",
    dtype: "f32",
    inputs: { input: product(inputShape), filter: product(filterShape) },
    output: { argument: "output", elements: batch * filters * outSize * outSize },
    args: ({ input, filter, output }) => ({
      ...(isLast ? { layout } : {}),
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
      const outPixels = outSize ** 2;
      const pixel = (isLast ? Math.floor(index / filters) : index) % outPixels;
      const [x, y] = [pixel % outSize, Math.floor(pixel / outSize)];
      const outChannel = isLast ? index % filters : Math.floor(index / outPixels) % filters;
      const image = Math.floor(index / (outPixels * filters));
      const firstChannel = Math.floor(outChannel / (filters / groups)) * own;
      let value = 0;
      let magnitude = 0;
      for (let c = 0; c < own; c++)
        for (let i = 0; i < kernel; i++)
          for (let j = 0; j < kernel; j++) {
            const [row, column] = [y * stride + i - padding, x * stride + j - padding];
            if (row < 0 || row >= size || column < 0 || column >= size) continue;
            const weight = filter!.at(((outChannel * own + c) * kernel + i) * kernel + j);
            const channel = firstChannel + c;
            const place = isLast
              ? ((image * size + row) * size + column) * channels + channel
              : ((image * channels + channel) * size + row) * size + column;
            const term = weight * input!.at(place);
            value += term;
            magnitude += Math.abs(term);
          }
      return sumOfProducts("f32", value, magnitude, own * kernel * kernel);
    },
    problem: { inputShape, filterShape, stride, padding, groups, ...(isLast ? { layout } : {}) },
    ...options,
  });
}
