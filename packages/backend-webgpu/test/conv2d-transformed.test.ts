// Tags: kernels, pure
import {
  type Activation,
  type Conv2dInputGradientProblem,
  type Conv2dProblem,
  type ConvolutionTile,
  convolutionTransforms,
  dtypeBytes,
  type FloatType,
} from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { conv2d } from "#src/kernels/conv2d/index.js";
import { conv2dInputGradient } from "#src/kernels/conv2d-input-gradient/index.js";
import { placeholder } from "#src/kernels/segments/index.js";
import type { KernelContext } from "#src/runtime/context.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { type Expected, finishedSum, gamma, signed, withProducts } from "./products.js";
import { portable } from "./support.js";

/** With 3 x 3 filters. */
interface Case {
  readonly batch?: number;
  readonly inChannels: number;
  readonly outChannels: number;
  readonly size: readonly [height: number, width: number];
  readonly padding: readonly [top: number, left: number, bottom: number, right: number];
  readonly bias?: boolean;
  readonly activation?: Activation;
  /** Elements in front of every operand. */
  readonly offset?: number;
  /** One input is this much larger than the others. */
  readonly peak?: number;
}

type Geometry = Omit<
  Conv2dProblem<DeviceMemory>,
  "dtype" | "input" | "filter" | "bias" | "activation" | "output"
>;

function geometry({ batch = 1, inChannels, outChannels, size, padding }: Case): Geometry {
  const [height, width] = size;
  const [top, left, bottom, right] = padding;
  return {
    ...{ layout: "NCHW", batch, inChannels, outChannels, groups: 1, height, width },
    ...{ kernelHeight: 3, kernelWidth: 3, strideY: 1, strideX: 1, dilationY: 1, dilationX: 1 },
    ...{ top, left, bottom, right, outHeight: height + top + bottom - 2, outWidth: width + left + right - 2 },
  };
}

/** See docs/decisions/0027-transformed-convolutions.md. */
const errors: Readonly<Record<ConvolutionTile, { readonly roundings: number; readonly factor: number }>> = {
  "2x2": { roundings: 22, factor: 64 },
  "4x4": { roundings: 30, factor: 752 },
};

/** The largest input of a channel in reach of the tiles that an output at (y, x) may be part of. */
function largestNear(
  { inChannels, height, width, top, left }: Geometry,
  input: Float32Array,
  reach: number,
  [image, channel, y, x]: readonly [number, number, number, number],
): number {
  let largest = 0;
  for (let row = Math.max(0, y - top - reach); row <= Math.min(height - 1, y - top + 2 + reach); row++)
    for (
      let column = Math.max(0, x - left - reach);
      column <= Math.min(width - 1, x - left + 2 + reach);
      column++
    ) {
      const value = input[((image * inChannels + channel) * height + row) * width + column]!;
      largest = Math.max(largest, Math.abs(value));
    }
  return largest;
}

/** The formula, in f64. Weights and bias are up to 1. */
function* reference(
  p: Geometry,
  { input, filter, bias }: Readonly<Record<"input" | "filter" | "bias", Float32Array>>,
  tile: ConvolutionTile,
  activation: Activation | undefined,
): Generator<Expected> {
  const { roundings, factor } = errors[tile];
  const reach = convolutionTransforms[tile].outputs - 1;
  let index = 0;
  for (let b = 0; b < p.batch; b++)
    for (let o = 0; o < p.outChannels; o++)
      for (let y = 0; y < p.outHeight; y++)
        for (let x = 0; x < p.outWidth; x++, index++) {
          let value = bias[o] ?? 0;
          let largest = 0;
          for (let c = 0; c < p.inChannels; c++) {
            largest += largestNear(p, input, reach, [b, c, y, x]);
            for (let i = 0; i < 3; i++)
              for (let j = 0; j < 3; j++) {
                const [row, column] = [y + i - p.top, x + j - p.left];
                if (row < 0 || column < 0 || row >= p.height || column >= p.width) continue;
                value +=
                  filter[((o * p.inChannels + c) * 3 + i) * 3 + j]! *
                  input[((b * p.inChannels + c) * p.height + row) * p.width + column]!;
              }
          }
          const bound = gamma(p.inChannels + roundings) * (factor * largest + 1);
          yield finishedSum(index, value, bound, "f32", activation);
        }
}

const tiles = Object.keys(convolutionTransforms) as ConvolutionTile[];

const shapes: readonly Case[] = [
  // Nothing is a multiple of anything, and rows do not start aligned.
  { inChannels: 5, outChannels: 7, size: [9, 7], padding: [1, 2, 0, 3], batch: 2, bias: true, offset: 1 },
  // Rows of tiles are whole quads of 4 x 4.
  { inChannels: 4, outChannels: 8, size: [10, 12], padding: [1, 1, 1, 1], batch: 2 },
  { inChannels: 16, outChannels: 4, size: [6, 10], padding: [1, 0, 0, 0], bias: true, activation: "relu" },
  // Less than a tile, most of which is padding.
  { inChannels: 3, outChannels: 2, size: [1, 2], padding: [1, 1, 1, 1] },
  { inChannels: 2, outChannels: 3, size: [2, 1], padding: [0, 4, 5, 0], activation: "gelu" },
];

describe("webgpu conv2d by transforms", () => {
  const device = withProducts();

  async function check(
    shape: Case,
    tile: ConvolutionTile,
    limits: Partial<DeviceFeatures["limits"]> = {},
  ): Promise<void> {
    const { offset = 0, activation } = shape;
    const sizes = geometry(shape);
    const { batch, inChannels, outChannels, height, width, outHeight, outWidth } = sizes;
    const operands = {
      input: signed(batch * inChannels * height * width, "f32", 1),
      filter: signed(outChannels * inChannels * 9, "f32", 2),
      bias: signed(shape.bias ? outChannels : 0, "f32", 3),
    };
    if (shape.peak !== undefined) operands.input[Math.floor(operands.input.length / 2)] = shape.peak;
    const count = batch * outChannels * outHeight * outWidth;
    const place = (values: Float32Array) => device().place(values, "f32", offset);
    const regions = {
      ...{ input: place(operands.input), filter: place(operands.filter), bias: place(operands.bias) },
      output: place(new Float32Array(count).fill(Number.NaN)),
    };
    const problem: Conv2dProblem<DeviceMemory> = {
      ...{ dtype: "f32", ...sizes, ...regions, bias: shape.bias ? regions.bias : undefined, activation },
    };
    const features = (real: DeviceFeatures): DeviceFeatures => ({
      ...{ ...real, limits: { ...real.limits, ...limits }, transformedConvolutions: tile },
    });
    const expected = reference(sizes, operands, tile, activation);
    await device().check(regions.output, "f32", expected, JSON.stringify({ ...shape, tile }), () =>
      device().run((context) => conv2d.run(context, problem, `transformed_${tile}`), features),
    );
    device().free(...Object.values(regions));
  }

  const parts = (name: string) => device().programs.filter((program) => program.startsWith(name)).length;

  for (const tile of tiles) {
    it(`stays within its bound for tiles of ${tile}, whatever the sizes, padding and epilogue`, async () => {
      for (const shape of shapes) {
        await check(shape, tile);
        assert.equal(parts(`conv2d_output_${tile}`), 1);
      }
    });

    it(`spoils nothing by a large number but what tiles of ${tile} around it may hold`, () =>
      check({ inChannels: 4, outChannels: 8, size: [20, 24], padding: [1, 1, 1, 1], peak: 2 ** 40 }, tile));

    it(`computes some tiles of ${tile} at a time if there is little room for them`, async () => {
      const shape: Case = {
        inChannels: 4,
        outChannels: 4,
        size: [19, 18],
        padding: [1, 1, 1, 1],
        bias: true,
      };
      await check(shape, tile, { maxStorageBufferBindingSize: 4096 });
      assert.equal(parts(`conv2d_filter_${tile}`), 1);
      assert.isAbove(parts(`conv2d_output_${tile}`), 3);
      await check(shape, tile, { maxStorageBufferBindingSize: 1000 });
      assert.equal(parts(`conv2d_output_${tile}`), 0);
    });
  }
});

/** Names of the programs that a problem would run. */
function programsOf<Problem>(
  run: (context: KernelContext, problem: Problem) => void,
  problem: Problem,
): readonly string[] {
  const names: string[] = [];
  run(
    {
      features: { ...portable, transformedConvolutions: "4x4" },
      dispatch: ({ name }) => names.push(name),
      scratch: placeholder,
      copy() {},
      fill() {},
    },
    problem,
  );
  return names;
}

describe("webgpu transforms of convolutions", () => {
  type Change = Partial<Pick<Conv2dProblem<DeviceMemory>, "strideY" | "groups" | "kernelHeight">>;

  const sizes = geometry({
    inChannels: 128,
    outChannels: 128,
    size: [56, 56],
    padding: [1, 1, 1, 1],
    batch: 8,
  });
  const images = (dtype: FloatType) => placeholder(dtypeBytes[dtype] * 8 * 128 * 56 * 56);
  const filters = (dtype: FloatType) => placeholder(dtypeBytes[dtype] * 128 * 128 * 9);
  const isTransformed = (programs: readonly string[]) => programs.includes("conv2d_filter_4x4");

  const forward = (dtype: FloatType, change: Change = {}) =>
    isTransformed(
      programsOf<Conv2dProblem<DeviceMemory>>(conv2d.run, {
        ...{ ...sizes, dtype, input: images(dtype), filter: filters(dtype), output: images(dtype) },
        ...{ bias: undefined, activation: undefined, ...change },
      }),
    );

  const backward = (dtype: FloatType, change: Partial<Geometry> = {}, accumulate = false) =>
    isTransformed(
      programsOf<Conv2dInputGradientProblem<DeviceMemory>>(conv2dInputGradient.run, {
        ...{
          ...sizes,
          dtype,
          outputGradient: images(dtype),
          filter: filters(dtype),
          inputGradient: images(dtype),
        },
        ...{ accumulate, ...change },
      }),
    );

  it("are for the convolutions that are declared, and no others", () => {
    assert.isTrue(forward("f32"));
    assert.isFalse(forward("f16"));
    assert.isFalse(forward("f32", { strideY: 2 }));
    assert.isFalse(forward("f32", { groups: 2 }));
    assert.isFalse(forward("f32", { kernelHeight: 2 }));
  });

  it("are for gradients of such convolutions, but not for parts of other gradients", () => {
    assert.isTrue(backward("f32"));
    assert.isTrue(backward("f32", {}, true));
    assert.isFalse(backward("f16"));
    // Its sums are f32.
    assert.isFalse(backward("f16", {}, true));
    // Pixels of one phase meet 3 x 3 places of the filter.
    const strided = { kernelHeight: 6, kernelWidth: 6, strideY: 2, strideX: 2, top: 2, left: 2 };
    const half = { ...strided, bottom: 2, right: 2, outHeight: 28, outWidth: 28 };
    assert.isFalse(backward("f32", half));
  });
});
