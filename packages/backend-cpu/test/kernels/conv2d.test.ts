// Tags: kernels, pure
import { activations, type Conv2dArguments, type DeviceHandle, type FloatType } from "@backplane/core";
import { expect } from "chai";
import { conv2d } from "#src/kernels/conv2d/conv2d.js";
import { copy } from "#src/kernels/copy/index.js";
import { gemm } from "#src/kernels/gemm/index.js";
import { unary } from "#src/kernels/unary/unary.js";
import { expectSameElements } from "../same-elements.js";
import { asStored, types } from "../types.js";
import { describeEachTile, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedOutput, resolveProblem, runOperation, uploadElements } from "./problems.js";

const handle = 1 as DeviceHandle;

type Shape = Omit<Conv2dArguments, "input" | "filter" | "bias" | "output" | "dtype"> & {
  readonly bias?: boolean;
};

interface Inputs {
  readonly input: Float32Array;
  readonly filter: Float32Array;
  readonly bias: Float32Array | undefined;
}

interface Reference {
  readonly values: Float64Array;
  readonly magnitudes: Float64Array;
}

const count = (shape: readonly number[]): number => shape.reduce((n, extent) => n * extent, 1);

function reference(shape: Shape, { input, filter, bias }: Inputs): Reference {
  const [batch, inChannels, height, width] = shape.inputShape;
  const [outChannels, groupChannels, kernelHeight, kernelWidth] = shape.filterShape;
  const { stride = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1], groups = 1 } = shape;
  const [top, left, bottom, right] = padding;
  const outHeight =
    Math.floor((height + top + bottom - dilation[0] * (kernelHeight - 1) - 1) / stride[0]) + 1;
  const outWidth = Math.floor((width + left + right - dilation[1] * (kernelWidth - 1) - 1) / stride[1]) + 1;
  const values = new Float64Array(batch * outChannels * outHeight * outWidth);
  const magnitudes = new Float64Array(values.length);
  let at = 0;
  for (let b = 0; b < batch; b++)
    for (let o = 0; o < outChannels; o++) {
      const firstChannel = Math.floor(o / (outChannels / groups)) * groupChannels;
      for (let y = 0; y < outHeight; y++)
        for (let x = 0; x < outWidth; x++) {
          let sum = bias?.[o] ?? 0;
          let magnitude = Math.abs(sum);
          for (let c = 0; c < groupChannels; c++)
            for (let i = 0; i < kernelHeight; i++)
              for (let j = 0; j < kernelWidth; j++) {
                const iy = y * stride[0] + i * dilation[0] - top;
                const ix = x * stride[1] + j * dilation[1] - left;
                if (iy < 0 || iy >= height || ix < 0 || ix >= width) continue;
                const weight = filter[((o * groupChannels + c) * kernelHeight + i) * kernelWidth + j]!;
                const plane = b * inChannels + firstChannel + c;
                const product = weight * input[(plane * height + iy) * width + ix]!;
                sum += product;
                magnitude += Math.abs(product);
              }
          values[at] = sum;
          magnitudes[at++] = magnitude;
        }
    }
  return { values, magnitudes };
}

type Extents = Shape["inputShape"];

/** Exchanges the last two axes. */
function moved(
  values: Float32Array,
  [batch, rows, columns]: readonly [number, number, number],
): Float32Array {
  const result = new Float32Array(values.length);
  for (let b = 0; b < batch; b++)
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < columns; j++)
        result[(b * columns + j) * rows + i] = values[(b * rows + i) * columns + j]!;
  return result;
}

describeEachTile("conv2d kernels", (options) => {
  // Images with channels last also take products and transpositions.
  const kernels = new Set([...conv2d.kernels, ...unary.kernels, ...gemm.kernels, ...copy.kernels]);
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(kernels, { ...options, pages: 768 });
  });

  const inputsFor = (shape: Shape, make: () => number, dtype: FloatType): Inputs => {
    const data = (n: number): Float32Array => asStored(dtype, Float32Array.from({ length: n }, make));
    return {
      input: data(count(shape.inputShape)),
      filter: data(count(shape.filterShape)),
      bias: shape.bias ? data(shape.filterShape[0]) : undefined,
    };
  };

  /** The same images with channels last. */
  const channelsLast = (images: Float32Array, [batch, channels, height, width]: Extents): Float32Array =>
    moved(images, [batch, channels, height * width]);

  /** Runs a shape whose images have their channels last, on images that have them first. */
  const runLast = (
    shape: Shape,
    dtype: FloatType,
    { input, ...rest }: Inputs,
    outputs: number,
    on = bench,
  ): Float32Array => {
    const [batch, channels, height, width] = shape.inputShape;
    const last = { ...shape, layout: "NHWC", inputShape: [batch, height, width, channels] } as const;
    const got = run(last, dtype, { ...rest, input: channelsLast(input, shape.inputShape) }, outputs, on);
    const outChannels = shape.filterShape[0];
    return moved(got, [batch, outputs / batch / outChannels, outChannels]);
  };

  const run = (
    { bias: _, ...shape }: Shape,
    dtype: FloatType,
    inputs: Inputs,
    outputs: number,
    on = bench,
  ): Float32Array => {
    const output = guardedOutput(on, dtype, outputs);
    const regions = {
      input: uploadElements(on, dtype, inputs.input),
      filter: uploadElements(on, dtype, inputs.filter),
      output: output.region,
      ...(inputs.bias && { bias: uploadElements(on, dtype, inputs.bias) }),
    };
    const operands = { input: handle, filter: handle, output: handle, ...(inputs.bias && { bias: handle }) };
    runOperation(on, conv2d, resolveProblem("conv2d", { ...shape, ...operands, dtype }, regions));
    return output.read();
  };

  const shapes: Readonly<Record<string, Shape>> = {
    "one pixel": { inputShape: [1, 1, 1, 1], filterShape: [1, 1, 1, 1] },
    "1x1": { inputShape: [2, 5, 9, 8], filterShape: [7, 5, 1, 1], bias: true },
    "3x3, same": { inputShape: [1, 3, 17, 19], filterShape: [8, 3, 3, 3], padding: [1, 1, 1, 1], bias: true },
    "3x3, stride 2": {
      inputShape: [1, 4, 23, 22],
      filterShape: [9, 4, 3, 3],
      stride: [2, 2],
      padding: [1, 1, 0, 0],
    },
    "3x3, stride 3": {
      inputShape: [2, 2, 20, 31],
      filterShape: [5, 2, 3, 3],
      stride: [3, 3],
      padding: [2, 0, 1, 4],
    },
    "asymmetric everything": {
      inputShape: [2, 6, 13, 29],
      filterShape: [10, 3, 2, 5],
      stride: [2, 1],
      padding: [0, 4, 3, 1],
      dilation: [3, 2],
      groups: 2,
      bias: true,
    },
    depthwise: {
      inputShape: [2, 12, 30, 31],
      filterShape: [12, 1, 3, 3],
      padding: [1, 1, 1, 1],
      groups: 12,
      bias: true,
    },
    "depthwise, stride 2": {
      inputShape: [1, 5, 40, 41],
      filterShape: [10, 1, 5, 5],
      stride: [2, 2],
      padding: [2, 2, 2, 2],
      groups: 5,
    },
    deep: { inputShape: [1, 70, 7, 7], filterShape: [67, 70, 3, 3], padding: [1, 1, 1, 1], bias: true },
    "many channels, groups": { inputShape: [1, 8, 6, 5], filterShape: [140, 4, 3, 3], groups: 2 },
    "padding wider than the kernel": {
      inputShape: [1, 2, 3, 3],
      filterShape: [2, 2, 2, 2],
      padding: [5, 6, 7, 8],
      bias: true,
    },
    "input narrower than a vector": {
      inputShape: [1, 3, 50, 1],
      filterShape: [4, 3, 3, 1],
      padding: [1, 0, 1, 0],
    },
    "columns that start left of the input": {
      inputShape: [1, 1, 5, 40],
      filterShape: [1, 1, 1, 7],
      stride: [1, 4],
      padding: [0, 30, 0, 30],
    },
    "no input channels": { inputShape: [1, 0, 4, 4], filterShape: [3, 0, 2, 2], bias: true },
    "no input channels, no bias": { inputShape: [1, 0, 4, 4], filterShape: [3, 0, 2, 2] },
    "no input rows": {
      inputShape: [1, 2, 0, 4],
      filterShape: [3, 2, 2, 2],
      padding: [2, 1, 2, 1],
      bias: true,
    },
    "steps beyond 32 bits": {
      inputShape: [1, 1, 4, 4],
      filterShape: [1, 1, 1, 1],
      stride: [2 ** 33, 2 ** 32],
      dilation: [2 ** 34, 2 ** 32],
    },
    "every part of a tile": { inputShape: [1, 3, 9, 10], filterShape: [11, 3, 3, 3], padding: [1, 1, 1, 1] },
    "more channels than one chunk takes": { inputShape: [1, 29, 12, 11], filterShape: [260, 29, 3, 3] },
    "rows longer than one chunk": {
      inputShape: [1, 2, 4, 1100],
      filterShape: [5, 2, 3, 3],
      padding: [1, 1, 1, 1],
      bias: true,
    },
    "depthwise, rows longer than one chunk": {
      inputShape: [1, 2, 4, 5003],
      filterShape: [2, 1, 3, 3],
      groups: 2,
      padding: [1, 1, 1, 1],
    },
    "rows of whole tiles": { inputShape: [2, 5, 9, 18], filterShape: [7, 5, 3, 3], bias: true },
    "rows of whole tiles, deep": {
      inputShape: [1, 70, 7, 8],
      filterShape: [13, 70, 3, 3],
      padding: [1, 1, 1, 1],
      bias: true,
    },
    "rows of whole tiles, stride 2": {
      inputShape: [1, 4, 60, 64],
      filterShape: [10, 2, 3, 3],
      stride: [2, 2],
      padding: [1, 1, 1, 1],
      groups: 2,
    },
    "depthwise, rows of whole tiles": {
      inputShape: [2, 3, 12, 66],
      filterShape: [3, 1, 3, 3],
      groups: 3,
      bias: true,
    },
    "depthwise, rows that leave out a part of a tile": {
      inputShape: [2, 3, 12, 56],
      filterShape: [6, 1, 3, 3],
      groups: 3,
      padding: [1, 1, 1, 1],
      bias: true,
    },
    "1x1 over many pixels": { inputShape: [2, 300, 23, 31], filterShape: [13, 300, 1, 1], bias: true },
    "1x1 to many channels": { inputShape: [2, 20, 23, 31], filterShape: [67, 20, 1, 1], bias: true },
    "1x1 from and to many channels": { inputShape: [1, 270, 7, 9], filterShape: [130, 135, 1, 1], groups: 2 },
    "3x1, whole rows": { inputShape: [2, 3, 14, 21], filterShape: [9, 3, 3, 1], padding: [1, 0, 1, 0] },
    "1x1, stride 2": { inputShape: [1, 20, 23, 31], filterShape: [13, 20, 1, 1], stride: [2, 2] },
    // For images with channels last: whole blocks of channels, parts of them, and images narrower than what is done together.
    "depthwise of many channels, 3x3": {
      inputShape: [2, 23, 9, 12],
      filterShape: [23, 1, 3, 3],
      padding: [1, 1, 1, 1],
      groups: 23,
    },
    "depthwise of many channels, 3x3, stride 2": {
      inputShape: [1, 35, 12, 13],
      filterShape: [35, 1, 3, 3],
      stride: [2, 2],
      padding: [0, 0, 1, 1],
      groups: 35,
      bias: true,
    },
    "depthwise of many channels, 5x3, dilated": {
      inputShape: [1, 18, 11, 17],
      filterShape: [18, 1, 5, 3],
      padding: [4, 2, 3, 1],
      dilation: [2, 3],
      groups: 18,
      bias: true,
    },
    "depthwise of many channels, stride 3": {
      inputShape: [1, 9, 11, 26],
      filterShape: [9, 1, 2, 3],
      stride: [1, 3],
      padding: [1, 2, 1, 2],
      groups: 9,
    },
    "depthwise of many channels, few columns": {
      inputShape: [1, 20, 3, 3],
      filterShape: [20, 1, 3, 3],
      padding: [1, 1, 1, 1],
      groups: 20,
    },
    "few channels of several images, with other padding on each side": {
      inputShape: [3, 3, 5, 7],
      filterShape: [5, 3, 3, 3],
      stride: [2, 1],
      padding: [2, 0, 1, 3],
      bias: true,
    },
    "a kernel too large for planes": { inputShape: [1, 2, 20, 21], filterShape: [5, 2, 17, 17] },
    "a kernel much wider than the output": { inputShape: [1, 2, 20, 103], filterShape: [5, 2, 2, 100] },
    "large image": {
      inputShape: [1, 3, 64, 130],
      filterShape: [18, 3, 7, 7],
      stride: [2, 2],
      padding: [3, 3, 3, 3],
    },
  };

  for (const [name, shape] of Object.entries(shapes)) {
    it(`${name}: exact on small integers`, () => {
      const random = randomNumbers(name.length);
      const depth = Math.max(1, count(shape.filterShape.slice(1)));
      // Sums stay below 2^24 for f32, and below 2^11 for f16.
      for (const [dtype, limit] of [
        ["f32", 100],
        ["f16", Math.min(3, Math.floor(Math.sqrt(2047 / depth)))],
      ] as const) {
        const inputs = inputsFor(shape, () => Math.round((random() * 2 - 1) * limit), dtype);
        const { values } = reference(shape, inputs);
        for (const [layout, of] of Object.entries({ NCHW: run, NHWC: runLast })) {
          const got = of(shape, dtype, inputs, values.length);
          values.forEach((value, i) => {
            if (got[i] !== value) expect.fail(`${layout}, ${dtype} element ${i}: ${got[i]}, not ${value}`);
          });
        }
      }
    });

    it(`${name}: within 8 sqrt(n) half units of the sum of magnitudes`, () => {
      const random = randomNumbers(name.length + 1);
      const terms = count(shape.filterShape.slice(1)) + 1;
      for (const dtype of ["f32", "f16"] as const) {
        const inputs = inputsFor(shape, () => random() * 2 - 1, dtype);
        const { values, magnitudes } = reference(shape, inputs);
        for (const [layout, of] of Object.entries({ NCHW: run, NHWC: runLast })) {
          const got = of(shape, dtype, inputs, values.length);
          values.forEach((value, i) => {
            const tolerance = 8 * Math.sqrt(terms) * 2 ** -24 * magnitudes[i]! + types[dtype].rounding(value);
            const error = Math.abs(got[i]! - value);
            if (!(error <= tolerance))
              expect.fail(`${layout}, ${dtype} element ${i}: ${got[i]}, not ${value} +- ${tolerance}`);
          });
        }
      }
    });
  }

  it("gives what bias and activation make of the sums", () => {
    for (const name of [
      "1x1",
      "1x1 to many channels",
      "1x1 over many pixels",
      "3x3, same",
      "rows of whole tiles",
      "depthwise, rows that leave out a part of a tile",
      "depthwise of many channels, 3x3",
    ]) {
      const shape = { ...shapes[name]!, bias: true };
      const random = randomNumbers(3);
      const inputs = inputsFor(shape, () => random() * 2 - 1, "f32");
      const outputs = reference(shape, inputs).values.length;
      for (const [layout, of] of Object.entries({ NCHW: run, NHWC: runLast })) {
        const sums = of(shape, "f32", inputs, outputs);
        for (const activation of activations) {
          const region = bench.upload(sums);
          const problem = {
            kind: activation,
            dtype: "f32",
            n: outputs,
            input: region,
            output: region,
          } as const;
          bench.run(unary.plan(problem, bench.context));
          const got = of({ ...shape, activation }, "f32", inputs, outputs);
          expectSameElements(got, bench.float32(region), `${name}, ${layout}, ${activation}`);
        }
      }
    }
  });

  it("gives the same with channels last, however many workers there are", async () => {
    const many = await Workbench.create(kernels, { ...options, pages: 256, workers: 4 });
    for (const name of [
      "3x3, same",
      "many channels, groups",
      "deep",
      "large image",
      "depthwise of many channels, 3x3",
      "depthwise, rows of whole tiles",
    ]) {
      const shape = { ...shapes[name]!, bias: true, activation: "relu6" as const };
      const random = randomNumbers(5);
      for (const dtype of ["f32", "f16"] as const) {
        const inputs = inputsFor(shape, () => random() * 2 - 1, dtype);
        const { length } = reference(shape, inputs).values;
        const alone = runLast(shape, dtype, inputs, length);
        expectSameElements(runLast(shape, dtype, inputs, length, many), alone, `${name}, ${dtype}`);
      }
    }
  });

  it("stays within the tight bound where all rounding errors point the same way", () => {
    const shape: Shape = { inputShape: [1, 4000, 1, 1], filterShape: [1, 4000, 1, 1] };
    const inputs = inputsFor(shape, () => 0.1, "f32");
    const { values, magnitudes } = reference(shape, inputs);
    const [got] = run(shape, "f32", inputs, 1);
    expect(Math.abs(got! - values[0]!)).to.be.at.most(8 * Math.sqrt(4000) * 2 ** -24 * magnitudes[0]!);
  });

  it("keeps NaN where it is met, and nowhere else", () => {
    const shape: Shape = { inputShape: [1, 2, 9, 11], filterShape: [3, 2, 3, 3], padding: [1, 1, 1, 1] };
    const inputs = inputsFor(shape, () => 1, "f32");
    inputs.input[4 * 11 + 5] = Number.NaN;
    const got = run(shape, "f32", inputs, 3 * 99);
    got.forEach((value, at) => {
      const [y, x] = [Math.floor(at / 11) % 9, at % 11];
      expect(Number.isNaN(value)).to.equal(Math.abs(y - 4) <= 1 && Math.abs(x - 5) <= 1);
    });
  });
});
