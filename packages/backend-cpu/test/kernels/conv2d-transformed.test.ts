// Tags: kernels, pure
import { activations, type ConvolutionTile, type DeviceHandle } from "@backplane/core";
import { expect } from "chai";
import { conv2d } from "#src/kernels/conv2d/conv2d.js";
import {
  planTransformed,
  transformedBlocks,
  transformedKernels,
  transformedTile,
} from "#src/kernels/conv2d/transformed.js";
import { copy } from "#src/kernels/copy/index.js";
import { unary } from "#src/kernels/unary/unary.js";
import { describeEachTile, describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedOutput, resolveProblem, runOperation, uploadElements } from "./problems.js";

const image = {
  ...{ dtype: "f32" as const, layout: "NCHW" as const, batch: 1, inChannels: 3, outChannels: 5, groups: 1 },
  ...{ kernelHeight: 3, kernelWidth: 3, strideY: 1, strideX: 1, dilationY: 1, dilationX: 1 },
  ...{ height: 9, width: 10, top: 1, left: 1, bottom: 1, right: 1, outHeight: 9, outWidth: 10 },
};
type Image = typeof image;

/** With the extents of the output that follow. */
function imageWith(changes: Partial<Image>): Image {
  const { height, width, top, left, bottom, right } = { ...image, ...changes };
  return {
    ...{ ...image, outHeight: height + top + bottom - 2, outWidth: width + left + right - 2 },
    ...changes,
  };
}

const outputsOf = ({ batch, outChannels, outHeight, outWidth }: Image): number =>
  batch * outChannels * outHeight * outWidth;

interface Operands {
  readonly input: Float32Array;
  readonly filter: Float32Array;
}

function operandsOf(shape: Image, make: () => number): Operands {
  const numbers = (n: number): Float32Array => Float32Array.from({ length: n }, make);
  return {
    input: numbers(shape.batch * shape.inChannels * shape.height * shape.width),
    filter: numbers(shape.outChannels * shape.inChannels * 9),
  };
}

/**
 * In f64: the sums, and for each output channel the largest |input| times the largest |filter|, added over input channels.
 * `inOrder` has the sums in f32, of one product after another.
 */
function reference(shape: Image, { input, filter }: Operands) {
  const { batch, inChannels, outChannels, height, width, outHeight, outWidth, top, left } = shape;
  const values = new Float64Array(outputsOf(shape));
  const inOrder = new Float32Array(values.length);
  const largest = (array: Float32Array, start: number, count: number): number =>
    array.subarray(start, start + count).reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  const products = Array.from({ length: batch * outChannels }, (_, plane) => {
    const [b, o] = [Math.floor(plane / outChannels), plane % outChannels];
    let sum = 0;
    for (let c = 0; c < inChannels; c++)
      sum +=
        largest(input, (b * inChannels + c) * height * width, height * width) *
        largest(filter, (o * inChannels + c) * 9, 9);
    return sum;
  });
  for (let plane = 0; plane < batch * outChannels; plane++) {
    const [b, o] = [Math.floor(plane / outChannels), plane % outChannels];
    for (let y = 0; y < outHeight; y++)
      for (let x = 0; x < outWidth; x++) {
        let [sum, rounded] = [0, 0];
        for (let c = 0; c < inChannels; c++)
          for (let tap = 0; tap < 9; tap++) {
            const row = y + Math.floor(tap / 3) - top;
            const column = x + (tap % 3) - left;
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            const pixel = input[((b * inChannels + c) * height + row) * width + column]!;
            const product = pixel * filter[(o * inChannels + c) * 9 + tap]!;
            sum += product;
            rounded = Math.fround(rounded + Math.fround(product));
          }
        values[(plane * outHeight + y) * outWidth + x] = sum;
        inOrder[(plane * outHeight + y) * outWidth + x] = rounded;
      }
  }
  return { values, inOrder, products };
}

/**
 * r and F of the bound in docs/decisions/0027-transformed-convolutions.md, and the largest ratio of the root mean square
 * error on uniform numbers to that of f32 sums in order: about 1.5 times what it says there of 64 channels.
 */
interface Bounds {
  readonly roundings: number;
  readonly factor: number;
  readonly errorRatio: number;
}
const bounds: Readonly<Record<ConvolutionTile, Bounds>> = {
  "2x2": { roundings: 22, factor: 64, errorRatio: 1 },
  "4x4": { roundings: 30, factor: 752, errorRatio: 3 },
};
const tiles = Object.keys(bounds) as readonly ConvolutionTile[];

async function run(
  shape: Image,
  tile: ConvolutionTile,
  { input, filter }: Operands,
  options: Parameters<typeof Workbench.create>[1],
): Promise<Float32Array> {
  const bench = await Workbench.create(transformedKernels, options);
  const output = guardedOutput(bench, "f32", outputsOf(shape));
  const operands = {
    input: uploadElements(bench, "f32", input),
    filter: uploadElements(bench, "f32", filter),
  };
  const problem = { ...shape, ...operands, output: output.region };
  bench.run(planTransformed(problem as Parameters<typeof planTransformed>[0], bench.context, tile));
  return output.read();
}

const shapes: Readonly<Record<string, Partial<Image>>> = {
  "one output": { height: 3, width: 3, top: 0, left: 0, bottom: 0, right: 0 },
  "one pixel": { height: 1, width: 1 },
  "odd sizes": { height: 11, width: 13 },
  "no padding": { height: 10, width: 14, top: 0, left: 0, bottom: 0, right: 0 },
  "other padding on each side": { height: 8, width: 9, top: 2, left: 0, bottom: 1, right: 3 },
  "windows that lie outside": { height: 2, width: 3, top: 9, left: 11, bottom: 8, right: 13 },
  "whole tiles": { height: 8, width: 16, outChannels: 6 },
  "one channel to one": { inChannels: 1, outChannels: 1, height: 7, width: 6 },
  "images that share chunks": { batch: 5, height: 5, width: 6, inChannels: 2 },
  "rows longer than a chunk": { height: 4, width: 270, inChannels: 2, outChannels: 3 },
  "columns of single tiles": { height: 90, width: 2, inChannels: 2, outChannels: 3 },
  "more channels than are packed or summed together": {
    inChannels: 133,
    outChannels: 7,
    height: 6,
    width: 7,
  },
  "more channels, and filters for many tiles": { inChannels: 131, outChannels: 8, height: 30, width: 31 },
  "several blocks of output channels": { inChannels: 3, outChannels: 137, height: 5, width: 9 },
  "several blocks of output channels, and many tiles": { outChannels: 70, height: 29, width: 33 },
};

describeEachTile("conv2d by transforms", (options) => {
  for (const tile of tiles)
    for (const [name, changes] of Object.entries(shapes)) {
      const shape = imageWith(changes);
      it(`${tile}, ${name}: within the bound, with the same bits for any number of workers`, async () => {
        const random = randomNumbers(name.length);
        const operands = operandsOf(shape, () => random() * 2 - 1);
        const { values, products } = reference(shape, operands);
        const got = await run(shape, tile, operands, options);
        const { roundings, factor } = bounds[tile];
        const n = (shape.inChannels + roundings) * 2 ** -23;
        const pixels = shape.outHeight * shape.outWidth;
        for (const [i, value] of got.entries()) {
          const allowed = (n / (1 - n)) * factor * products[Math.floor(i / pixels)]!;
          expect(Math.abs(value - values[i]!), `output ${i}`).to.be.at.most(allowed);
        }
        expect(await run(shape, tile, operands, { ...options, workers: 5 })).to.deep.equal(got);
      });
    }

  // The bound allows the worst for each rounding. This one finds operands that are kept in fewer bits.
  for (const tile of tiles)
    for (const inChannels of [64, 256])
      it(`${tile}, ${inChannels} channels: errors of the size of those of f32 sums in order`, async () => {
        const shape = imageWith({ inChannels, outChannels: 4, height: 16, width: 16 });
        const random = randomNumbers(inChannels);
        const operands = operandsOf(shape, () => random() * 2 - 1);
        const { values, inOrder } = reference(shape, operands);
        const meanSquare = (results: Float32Array): number =>
          results.reduce((sum, result, i) => sum + (result - values[i]!) ** 2, 0) / results.length;
        const got = await run(shape, tile, operands, options);
        const ratio = Math.sqrt(meanSquare(got) / meanSquare(inOrder));
        expect(ratio).to.be.at.most(bounds[tile].errorRatio);
      });

  for (const tile of tiles)
    it(`${tile}: numbers that spoil their tiles leave all others as they were`, async () => {
      const shape = imageWith({ height: 23, width: 26, outChannels: 7 });
      const random = randomNumbers(5);
      const operands = operandsOf(shape, random);
      const expected = await run(shape, tile, operands, options);
      const [row, column] = [12, 9];
      const reach = Number(tile[0]) - 1 + 1;
      for (const spoilt of [Number.NaN, Number.POSITIVE_INFINITY, 3e38, 1e30]) {
        const input = operands.input.slice();
        input[row * shape.width + column] = spoilt;
        const got = await run(shape, tile, { ...operands, input }, options);
        let changed = 0;
        for (const [i, value] of got.entries()) {
          const y = Math.floor(i / shape.outWidth) % shape.outHeight;
          const x = i % shape.outWidth;
          if (Math.max(Math.abs(y - row), Math.abs(x - column)) > reach)
            expect(value, `output ${i}`).to.equal(expected[i]);
          else if (!Object.is(value, expected[i])) changed++;
        }
        expect(changed).to.be.at.least(9 * shape.outChannels);
      }
    });
});

describeEitherWay("conv2d with transforms allowed", (options) => {
  const kernels = new Set([...conv2d.kernels, ...copy.kernels, ...unary.kernels]);
  const handle = 1 as DeviceHandle;
  const create = async () => {
    const bench = await Workbench.create(kernels, { ...options, pages: 512 });
    const context = { ...bench.context, transformedConvolutions: "4x4" as const };
    return { bench, plan: (problem: never) => bench.run(conv2d.plan(problem, context)) };
  };
  const shape = imageWith({ inChannels: 16, outChannels: 17, height: 14, width: 15 });
  const { inChannels, outChannels, height, width } = shape;
  const extents = {
    inputShape: [1, inChannels, height, width],
    filterShape: [outChannels, inChannels, 3, 3],
    padding: [1, 1, 1, 1],
  } as const;
  const random = randomNumbers(7);
  const operands = operandsOf(shape, () => random() * 2 - 1);
  const bias = Float32Array.from({ length: outChannels }, () => random() * 2 - 1);

  it("adds the bias and applies each activation", async () => {
    const { bench, plan } = await create();
    const convolve = (more: object): Float32Array => {
      const output = guardedOutput(bench, "f32", outputsOf(shape));
      const regions = {
        input: uploadElements(bench, "f32", operands.input),
        filter: uploadElements(bench, "f32", operands.filter),
        bias: uploadElements(bench, "f32", bias),
        output: output.region,
      };
      const handles = { input: handle, filter: handle, output: handle };
      plan(resolveProblem("conv2d", { ...extents, ...handles, ...more }, regions) as never);
      return output.read();
    };
    const sums = convolve({});
    const added = convolve({ bias: handle });
    expect(added).to.deep.equal(sums.map((sum, i) => sum + bias[Math.floor(i / (height * width))]!));
    for (const activation of activations) {
      const input = uploadElements(bench, "f32", added);
      const expected = guardedOutput(bench, "f32", added.length);
      const args = { kind: activation, n: added.length, input: handle, output: handle };
      runOperation(bench, unary, resolveProblem("unary", args, { input, output: expected.region }));
      expect(convolve({ bias: handle, activation }), activation).to.deep.equal(expected.read());
    }
  });

  it("gives the same with channels last", async () => {
    const { bench, plan } = await create();
    const moved = (planes: Float32Array, channels: number): Float32Array =>
      planes.map((_, i) => planes[(i % channels) * height * width + Math.floor(i / channels)]!);
    const handles = { input: handle, filter: handle, output: handle };
    const filter = uploadElements(bench, "f32", operands.filter);
    const last = guardedOutput(bench, "f32", outputsOf(shape));
    const lastExtents = { ...extents, inputShape: [1, height, width, inChannels], layout: "NHWC" } as const;
    const input = uploadElements(bench, "f32", moved(operands.input, inChannels));
    plan(
      resolveProblem(
        "conv2d",
        { ...lastExtents, ...handles },
        { input, filter, output: last.region },
      ) as never,
    );
    const first = await run(shape, "4x4", operands, options);
    expect(last.read()).to.deep.equal(moved(first, outChannels));
  });

  it("takes other kernels for what transforms do not suit, and for nothing", async () => {
    const { bench } = await create();
    const kernelsOf = (args: object): string => {
      const regionAt = (byteOffset: number) => ({
        memory: { byteOffset, byteLength: 1 << 20 },
        ...{ byteOffset: 0, byteLength: 1 << 20 },
      });
      const problem = resolveProblem(
        "conv2d",
        { ...extents, ...{ input: handle, filter: handle, output: handle }, ...args },
        { input: regionAt(0), filter: regionAt(1 << 20), output: regionAt(2 << 20) },
      );
      if (problem === undefined) return "";
      const context = { ...bench.context, workspace: () => 3 << 20, transformedConvolutions: "4x4" as const };
      return conv2d
        .plan(problem, context)
        .map(({ kernel }) => kernel)
        .join();
    };
    expect(kernelsOf({})).to.include("conv2d_transformed_4x4");
    for (const others of [
      { dtype: "f16" },
      { stride: [1, 2] },
      { dilation: [2, 1] },
      { filterShape: [16, 8, 3, 3], groups: 2 },
      { filterShape: [outChannels, inChannels, 3, 5] },
      { inputShape: [0, inChannels, height, width] },
      { inputShape: [1, 0, height, width], filterShape: [outChannels, 0, 3, 3] },
      { filterShape: [0, inChannels, 3, 3] },
      // Too few outputs to be worth it.
      { inputShape: [1, inChannels, 2, 2] },
    ])
      expect(kernelsOf(others), JSON.stringify(others)).not.to.include("transformed");
  });
});

describe("The choice of a transform", () => {
  const features = { relaxedSimd: true };

  it("goes by the number of tiles and channels, and keeps to the largest that is allowed", () => {
    const sized = (height: number, channels: number): Image =>
      imageWith({ inChannels: channels, outChannels: channels, height, width: height });
    expect(transformedTile(sized(56, 64), "4x4", features)).to.equal("4x4");
    expect(transformedTile(sized(56, 64), "2x2", features)).to.equal("2x2");
    expect(transformedTile(sized(7, 512), "4x4", features)).to.equal("2x2");
    expect(transformedTile(sized(3, 64), "4x4", features)).to.equal(undefined);
    expect(transformedTile(sized(56, 2), "4x4", features)).to.equal(undefined);
    const last = { ...sized(56, 64), layout: "NHWC" as const };
    expect(transformedTile(last, "4x4", features)).to.equal("4x4");
  });

  it("gives more workers more chunks, and all the same sums", () => {
    for (const tile of tiles)
      for (const channels of [64, 512]) {
        const shape = imageWith({ inChannels: channels, outChannels: channels, height: 28, width: 28 });
        const [one, four] = [1, 4].map((workers) => transformedBlocks(shape, tile, features, workers));
        expect(four!.chunks).to.be.at.least(Math.max(4, one!.chunks));
        expect(four!.depthChannels).to.equal(one!.depthChannels);
        expect(four!.ownFilters).to.equal(one!.ownFilters);
      }
  });

  it("takes no more memory than the option says", () => {
    for (const channels of [8, 128, 170, 1024])
      for (const height of [8, 60]) {
        for (const tile of tiles) {
          const taken: number[] = [];
          const region = { memory: { byteOffset: 0, byteLength: 0 }, byteOffset: 0, byteLength: 0 };
          const shape = imageWith({ inChannels: channels, outChannels: channels, height, width: height });
          const problem = { ...shape, input: region, filter: region, output: region };
          const context = {
            ...{ features, workers: 2, late: () => expect.fail("kernels are made late") },
            workspace: (bytes: number) => taken.push(bytes),
          };
          planTransformed(problem as Parameters<typeof planTransformed>[0], context, tile);
          const rooms = taken.pop()!;
          expect(rooms).to.be.at.most(2 * (2 << 20));
          // Lines that keep the filters of points apart come on top.
          expect(taken.reduce((sum, bytes) => sum + bytes, 0)).to.be.at.most((4 << 20) + 36 * 128);
        }
      }
  });
});
