// Tags: kernels, pure
import { expect } from "chai";
import { channelsLastKernels, planPixels } from "#src/kernels/conv2d/channels-last.js";
import { describeEachTile, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedOutput, uploadElements } from "./problems.js";

type Problem = Parameters<typeof planPixels>[0];

/** A depthwise convolution of images with channels last. */
interface Image {
  readonly batch: number;
  readonly channels: number;
  readonly height: number;
  readonly width: number;
  readonly kernel: readonly [height: number, width: number];
  readonly stride: readonly [y: number, x: number];
  readonly padding: readonly [top: number, left: number, bottom: number, right: number];
}

function shapeOf({ batch, channels, height, width, kernel, stride, padding }: Image) {
  const [top, left, bottom, right] = padding;
  const extent = (size: number, before: number, after: number, taps: number, step: number) =>
    Math.floor((size + before + after - taps) / step) + 1;
  return {
    ...{ layout: "NHWC" as const, batch, height, width, groups: channels },
    ...{ inChannels: channels, outChannels: channels, kernelHeight: kernel[0], kernelWidth: kernel[1] },
    ...{ strideY: stride[0], strideX: stride[1], dilationY: 1, dilationX: 1, top, left, bottom, right },
    outHeight: extent(height, top, bottom, kernel[0], stride[0]),
    outWidth: extent(width, left, right, kernel[1], stride[1]),
  };
}

/** By the definition, in the order of the taps. Elements beyond the image are left out. */
function convolved(shape: ReturnType<typeof shapeOf>, input: Float32Array, filter: Float32Array): number[] {
  const { batch, height, width, outHeight, outWidth, kernelHeight, kernelWidth, inChannels } = shape;
  const results: number[] = [];
  for (let image = 0; image < batch; image++)
    for (let y = 0; y < outHeight; y++)
      for (let x = 0; x < outWidth; x++)
        for (let c = 0; c < inChannels; c++) {
          let sum = 0;
          for (let i = 0; i < kernelHeight; i++)
            for (let j = 0; j < kernelWidth; j++) {
              const [row, column] = [y * shape.strideY + i - shape.top, x * shape.strideX + j - shape.left];
              if (row < 0 || row >= height || column < 0 || column >= width) continue;
              const pixel = (image * height + row) * width + column;
              sum += input[pixel * inChannels + c]! * filter[(c * kernelHeight + i) * kernelWidth + j]!;
            }
          results.push(Math.min(Math.max(sum + c, 0), 6));
        }
  return results;
}

describeEachTile("conv2d of channels one by one, which are last", (options) => {
  async function benchWith(workers: number): Promise<Workbench> {
    return await Workbench.create(channelsLastKernels, { ...options, workers });
  }

  /** Computes relu6 of the sums and a bias, from whole numbers that are given. */
  function check(bench: Workbench, image: Image, input: Float32Array, filter: Float32Array): void {
    const shape = shapeOf(image);
    const output = guardedOutput(
      bench,
      "f32",
      shape.batch * shape.outHeight * shape.outWidth * image.channels,
    );
    const bias = Float32Array.from({ length: image.channels }, (_, c) => c);
    const problem = {
      ...{ ...shape, dtype: "f32", activation: "relu6", output: output.region },
      ...{ input: uploadElements(bench, "f32", input), filter: uploadElements(bench, "f32", filter) },
      bias: uploadElements(bench, "f32", bias),
    } as unknown as Problem;
    bench.run(planPixels(problem, bench.context)!);
    expect(Array.from(output.read()), JSON.stringify(image)).to.deep.equal(convolved(shape, input, filter));
  }

  function wholeNumbers(seed: number): (count: number) => Float32Array {
    const random = randomNumbers(seed);
    return (count) => Float32Array.from({ length: count }, () => Math.floor(random() * 7) - 3);
  }

  const elementsOf = ({ batch, channels, height, width }: Image) => batch * channels * height * width;

  for (const stride of [1, 2, 3])
    it(`stride ${stride}: exact for all widths and paddings`, async () => {
      const numbers = wholeNumbers(stride);
      for (const left of [0, 1, 2])
        for (const right of [0, 1, 2]) {
          // A memory for each: nothing is freed in it.
          const bench = await benchWith(left === 1 ? 2 : 1);
          for (let width = Math.max(1, 3 - left - right); width <= 14; width++) {
            const image: Image = {
              ...{ batch: 2, channels: [3, 4, 9][width % 3]!, height: 4, width, kernel: [3, 3] },
              ...{ stride: [1 + (width % 2), stride], padding: [right, left, left, right] },
            };
            check(bench, image, numbers(elementsOf(image)), numbers(9 * image.channels));
          }
        }
    });

  it("exact for other windows", async () => {
    const bench = await benchWith(1);
    const numbers = wholeNumbers(4);
    for (const kernel of [
      [1, 3],
      [3, 1],
      [5, 3],
      [2, 2],
      [3, 5],
    ] as const) {
      const image: Image = {
        ...{ batch: 1, channels: 13, height: 7, width: 11, kernel },
        ...{ stride: [1, 1], padding: [0, Math.min(1, kernel[1] - 1), Math.min(1, kernel[0] - 1), 0] },
      };
      check(bench, image, numbers(elementsOf(image)), numbers(kernel[0] * kernel[1] * image.channels));
    }
  });

  it("leaves out factors of elements beyond the image, even infinite ones", async () => {
    const bench = await benchWith(1);
    const numbers = wholeNumbers(5);
    for (const stride of [1, 2] as const)
      for (const width of [2, 5, 9]) {
        const image: Image = {
          ...{ batch: 1, channels: 5, height: 3, width, kernel: [3, 3] },
          ...{ stride: [1, stride], padding: [1, 1, 1, 1] },
        };
        const filter = numbers(9 * image.channels);
        for (let c = 0; c < image.channels; c++) filter[9 * c + 3 * (c % 3)] = Number.POSITIVE_INFINITY;
        const input = numbers(elementsOf(image)).map((value) => Math.abs(value) + 1);
        check(bench, image, input, filter);
      }
  });
});
