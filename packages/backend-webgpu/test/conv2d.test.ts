// Tags: kernels, pure, long
import { type Activation, activations, type FloatType, floatTypes } from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { type ConvVariant, conv2d, convVariants } from "#src/kernels/conv2d/index.js";
import { type Convolution, type Geometry, geometry } from "./convolution-geometry.js";
import {
  asLargeGpu,
  type Expected,
  finishedSum,
  gamma,
  type ProductDevice,
  signed,
  withProducts,
} from "./products.js";

interface Case extends Convolution {
  readonly bias?: boolean;
  readonly activation?: Activation;
  readonly dtype?: FloatType;
  /** Elements in front of every operand. */
  readonly offset?: number;
}

type Operands = Readonly<Record<"input" | "filter" | "bias", Float32Array>>;

/** The formula, in f64, with the error bound of a sum of that many terms. */
function* reference(
  p: Geometry,
  { input, filter, bias }: Operands,
  dtype: FloatType,
  activation: Activation | undefined,
): Generator<Expected> {
  const channels = p.inChannels / p.groups;
  const taps = channels * p.kernelHeight * p.kernelWidth;
  const place = (image: number, channel: number, pixel: number, all: number, pixels: number) =>
    p.layout === "NHWC" ? (image * pixels + pixel) * all + channel : (image * all + channel) * pixels + pixel;
  const [pixels, outPixels] = [p.height * p.width, p.outHeight * p.outWidth];
  for (let b = 0; b < p.batch; b++)
    for (let o = 0; o < p.outChannels; o++)
      for (let y = 0; y < p.outHeight; y++)
        for (let x = 0; x < p.outWidth; x++) {
          const first = Math.floor(o / (p.outChannels / p.groups)) * channels;
          let value = bias[o] ?? 0;
          let magnitude = Math.abs(value);
          for (let c = 0; c < channels; c++)
            for (let i = 0; i < p.kernelHeight; i++)
              for (let j = 0; j < p.kernelWidth; j++) {
                const row = y * p.strideY + i * p.dilationY - p.top;
                const column = x * p.strideX + j * p.dilationX - p.left;
                if (row < 0 || column < 0 || row >= p.height || column >= p.width) continue;
                const weight = filter[((o * channels + c) * p.kernelHeight + i) * p.kernelWidth + j]!;
                const pixel = row * p.width + column;
                const term = weight * input[place(b, first + c, pixel, p.inChannels, pixels)]!;
                value += term;
                magnitude += Math.abs(term);
              }
          const index = place(b, o, y * p.outWidth + x, p.outChannels, outPixels);
          yield finishedSum(index, value, gamma(taps + 4) * magnitude, dtype, activation);
        }
}

async function check(
  device: ProductDevice,
  shape: Case,
  forced?: string,
  features?: (real: DeviceFeatures) => DeviceFeatures,
): Promise<void> {
  const { dtype = "f32", offset = 0 } = shape;
  const sizes = geometry(shape);
  const { batch, inChannels, outChannels, groups, height, width, kernelHeight, kernelWidth } = sizes;
  const operands = {
    input: signed(batch * inChannels * height * width, dtype, 1),
    filter: signed(outChannels * (inChannels / groups) * kernelHeight * kernelWidth, dtype, 2),
    bias: signed(shape.bias ? outChannels : 0, dtype, 3),
  };
  const count = batch * outChannels * sizes.outHeight * sizes.outWidth;
  const regions = {
    input: device.place(operands.input, dtype, offset),
    filter: device.place(operands.filter, dtype, offset),
    bias: device.place(operands.bias, dtype, offset),
    output: device.place(new Float32Array(count).fill(Number.NaN), dtype, offset),
  };
  const { activation } = shape;
  const problem = { dtype, ...sizes, ...regions, bias: shape.bias ? regions.bias : undefined, activation };
  const label = JSON.stringify({ ...shape, forced });
  await device.check(regions.output, dtype, reference(sizes, operands, dtype, activation), label, () =>
    device.run((context) => conv2d.run(context, problem, forced), features),
  );
  device.free(...Object.values(regions));
}

const shapes: readonly Case[] = [
  { inChannels: 1, outChannels: 1, size: [1, 1], kernel: [1, 1], bias: true },
  { inChannels: 5, outChannels: 7, size: [9, 7], kernel: [1, 1], batch: 2 },
  {
    inChannels: 4,
    outChannels: 33,
    size: [9, 8],
    kernel: [3, 3],
    stride: [2, 1],
    padding: [1, 2, 0, 3],
    bias: true,
  },
  {
    inChannels: 8,
    outChannels: 8,
    size: [11, 13],
    kernel: [3, 3],
    groups: 8,
    padding: [1, 1, 1, 1],
    batch: 2,
  },
  {
    inChannels: 6,
    outChannels: 12,
    size: [12, 14],
    kernel: [3, 2],
    groups: 3,
    dilation: [2, 3],
    padding: [3, 0, 1, 2],
  },
  { inChannels: 3, outChannels: 65, size: [10, 10], kernel: [7, 5], stride: [2, 3], padding: [3, 2, 3, 2] },
  { inChannels: 17, outChannels: 9, size: [33, 2], kernel: [2, 1], batch: 3, bias: true },
  { inChannels: 2, outChannels: 16, size: [6, 6], kernel: [6, 6], groups: 2, padding: [5, 5, 5, 5] },
  { inChannels: 3, outChannels: 2, size: [3, 3], kernel: [2, 2], padding: [9, 0, 0, 9] },
];

/** Filters of one tap: pixels that are neighbours in the input, in one image and aligned, or not. */
const points: readonly Case[] = [
  { inChannels: 18, outChannels: 9, size: [4, 6], kernel: [1, 1], batch: 3, bias: true },
  { inChannels: 6, outChannels: 9, size: [4, 6], kernel: [1, 1], offset: 8 },
  { inChannels: 33, outChannels: 40, size: [4, 10], kernel: [1, 1], groups: 1, batch: 2, offset: 2 },
  { inChannels: 34, outChannels: 20, size: [3, 5], kernel: [1, 1], groups: 2, batch: 5 },
  { inChannels: 5, outChannels: 8, size: [7, 9], kernel: [1, 1], stride: [2, 3], bias: true, batch: 2 },
];

/** Where quads of pixels lie in one row or not, and rows of the input start aligned or not. */
function depthwise(side: number, stride: number): readonly Case[] {
  const same = (side - 1) / 2;
  const groups = { inChannels: 3, outChannels: 3, groups: 3, kernel: [side, side], batch: 2 } as const;
  const strides = { ...groups, stride: [stride, stride] } as const;
  const [pad, size] = [[same, same, same, same] as const, [9 * stride, 12 * stride] as const];
  return [
    { ...strides, size, padding: pad, bias: true },
    { ...strides, size, padding: pad, offset: 1 },
    { ...strides, size: [11, 13], padding: pad },
    { ...strides, size: [11, 8], padding: [0, 0, 1, 2] },
    { ...strides, size: [8, 16], padding: [side + 1, side - 1, 0, 3], offset: 8 },
    { ...strides, size: [8, 16], padding: [0, side, 2, 0], bias: true },
    { ...strides, outChannels: 6, size: [8, 9], padding: pad, bias: true },
  ];
}

/** Channels last, with a filter for each: strips and rows that end early, padding on some sides only, and other windows. */
const lastQuads = { layout: "NHWC", kernel: [3, 3], padding: [1, 1, 1, 1] } as const;
const channelsLast: readonly Case[] = [
  { ...lastQuads, inChannels: 8, outChannels: 8, groups: 8, size: [7, 9], batch: 2, bias: true },
  // Stride 2 with padding below and on the right only, as TensorFlow has it.
  {
    ...lastQuads,
    inChannels: 4,
    outChannels: 4,
    groups: 4,
    size: [14, 16],
    stride: [2, 2],
    padding: [0, 0, 1, 1],
  },
  {
    ...{ ...lastQuads, inChannels: 12, outChannels: 12, groups: 12, size: [9, 11], kernel: [2, 3] },
    ...{ dilation: [3, 2], stride: [1, 3], padding: [4, 0, 1, 5], offset: 8, bias: true },
  },
];

/** Channels last, few of them, and filters of all of them: likewise. */
const denseLast: readonly Case[] = [
  { ...lastQuads, inChannels: 3, outChannels: 8, size: [7, 9], batch: 2, bias: true },
  { ...lastQuads, inChannels: 4, outChannels: 4, size: [8, 6], offset: 4 },
  {
    ...{ ...lastQuads, inChannels: 1, outChannels: 12, size: [9, 11], kernel: [2, 3], bias: true },
    ...{ dilation: [3, 2], stride: [1, 3], padding: [4, 0, 1, 5] },
  },
  { ...lastQuads, inChannels: 3, outChannels: 16, size: [14, 16], stride: [2, 2], padding: [0, 0, 1, 1] },
];

/** Those by transforms and of split numbers have tests of their own. */
const plainVariants = convVariants.filter(({ kind }) => kind !== "transformed" && kind !== "split");

/** Of which each, or the only one, is given an activation. */
function activatedShapes(variant: ConvVariant): readonly Case[] {
  if (variant.kind === "strip") return depthwise(variant.tile.side, variant.tile.stride).slice(0, 1);
  if (variant.kind === "channels") return channelsLast.slice(0, 1);
  if (variant.kind === "dense") return denseLast.slice(0, 1);
  return [...shapes, ...points].slice(0, 2 * activations.length);
}

const isLarge = (variant: ConvVariant): boolean => variant.kind === "implicit" && variant.tile.rows > 32;

describe("webgpu conv2d", () => {
  const device = withProducts();

  for (const dtype of floatTypes) {
    for (const variant of plainVariants) {
      const { name, kind } = variant;
      if (kind === "strip")
        it(`${name} is right in ${dtype} for aligned and other rows, and any padding`, async () => {
          for (const shape of depthwise(variant.tile.side, variant.tile.stride)) {
            await check(device(), { ...shape, dtype }, name);
            assert.match(device().programs[0]!, /^conv2d_strip/);
          }
        });
      else if (kind === "channels")
        it(`${name} is right in ${dtype} for odd sizes, strides, any padding and dilation`, async () => {
          const large: Case = { ...channelsLast[0]!, kernel: [5, 4], padding: [2, 3, 2, 0] };
          for (const shape of variant.tile.rows === 1 ? [...channelsLast, large] : channelsLast) {
            await check(device(), { ...shape, dtype }, name);
            assert.match(device().programs.join(), new RegExp(`^conv2d_${name}_[^,]*$`));
          }
        });
      else if (kind === "dense")
        it(`${name} is right in ${dtype} for odd sizes, strides, any padding and dilation`, async () => {
          for (const shape of denseLast) {
            await check(device(), { ...shape, dtype }, name);
            assert.match(device().programs.join(), new RegExp(`^conv2d_${name}_[^,]*$`));
          }
        });
      else if (isLarge(variant))
        // Its text differs from those of smaller tiles by numbers only, and compiles slowly on emulated devices.
        it(`${name} is right in ${dtype} where a tile is full, at its edges and beyond`, async () => {
          const shape = { inChannels: 4, bias: true, activation: "silu", dtype } as const;
          const padded = { ...shape, size: [12, 12], kernel: [3, 2], padding: [1, 1, 1, 0] } as const;
          await check(device(), { ...padded, outChannels: 130 }, name);
          await check(device(), { ...padded, outChannels: 257, kernel: [3, 3], padding: [1, 1, 1, 1] }, name);
          // One more text; in f16 it differs by what the smaller tile shows.
          if (dtype === "f16") return;
          await check(
            device(),
            { ...shape, outChannels: 257, size: [4, 3], kernel: [1, 1], batch: 11 },
            name,
          );
        });
      else if (kind !== "gemm")
        it(`${name} is right in ${dtype} for every kind of geometry`, async () => {
          for (const [i, shape] of [...shapes, ...points].entries())
            await check(device(), { offset: i % 3, ...shape, dtype }, name);
        });
    }

    // The text of an activation is the same in all of them: strips, which differ by numbers only, share them out.
    for (const [place, variant] of plainVariants
      .filter((one) => one.kind !== "gemm" && !isLarge(one))
      .entries())
      it(`${variant.name} applies activations in ${dtype}`, async () => {
        const sharesOut = ["strip", "channels", "dense"].includes(variant.kind);
        const fitting = activatedShapes(variant);
        for (const [i, shape] of fitting.entries()) {
          const activation = activations[(sharesOut ? place : i) % activations.length]!;
          await check(device(), { offset: i % 3, ...shape, dtype, activation }, variant.name);
          assert.match(device().programs[0]!, new RegExp(`_${activation}$`));
        }
      });

    it(`applies the activation in ${dtype} to products of matrices, and once to sums of parts`, async () => {
      const shape: Case = { inChannels: 6, outChannels: 10, size: [5, 7], kernel: [1, 1], batch: 2, dtype };
      const split: Case = { inChannels: 130, outChannels: 9, size: [5, 4], kernel: [2, 2], dtype, batch: 2 };
      for (const activation of activations) {
        await check(device(), { ...shape, activation }, "gemm");
        assert.match(device().programs[0]!, new RegExp(`^gemm.*_${activation}$`));
        await check(device(), { ...split, activation, bias: activation === "relu" }, undefined, asLargeGpu);
        assert.match(device().programs[1]!, new RegExp(`^conv2d_combine.*_${activation}$`));
        assert.notMatch(device().programs[0]!, /lu/);
      }
    });

    it(`computes 1 x 1 filters in ${dtype} as a product of matrices, or not`, async () => {
      const shape: Case = { inChannels: 6, outChannels: 10, size: [5, 7], kernel: [1, 1], batch: 2, dtype };
      await check(device(), shape, "gemm");
      assert.match(device().programs[0]!, /^gemm/);
      for (const change of [
        { stride: [2, 1] },
        { padding: [0, 0, 0, 1] },
        { groups: 2 },
        { bias: true },
      ] as const) {
        await check(device(), { ...shape, ...change }, "gemm");
        assert.match(device().programs[0]!, /^conv2d/);
      }
    });

    it(`splits long sums in ${dtype} between workgroups of large GPUs`, async () => {
      const shape = { inChannels: 130, outChannels: 9, kernel: [2, 2], dtype, batch: 2 } as const;
      for (const more of [
        { size: [5, 5], bias: true },
        { size: [5, 4], bias: true, offset: 1 },
        { size: [5, 4], groups: 1 },
      ] as const) {
        await check(device(), { ...shape, ...more }, undefined, asLargeGpu);
        assert.match(device().programs[1]!, /^conv2d_combine/);
      }
    });

    it(`writes quads of results in ${dtype} where images and output are aligned`, async () => {
      const shape = { inChannels: 4, outChannels: 9, kernel: [2, 2], dtype } as const;
      const onLargeGpu = (change: Pick<Case, "size" | "offset">) =>
        check(device(), { ...shape, ...change }, undefined, asLargeGpu);
      await onLargeGpu({ size: [5, 5] });
      assert.match(device().programs.join(), /^conv2d_implicit_32x32x16_4x4_f.._padded_f4_o4$/);
      await onLargeGpu({ size: [5, 4] });
      assert.match(device().programs.at(-1)!, /_o4$/);
      await onLargeGpu({ size: [4, 4] });
      assert.notMatch(device().programs.at(-1)!, /_o4$/);
      await onLargeGpu({ size: [5, 5], offset: 2 });
      assert.notMatch(device().programs.at(-1)!, /_o4$/);
    });

    it(`gives the bias in ${dtype} where the input has no rows`, async () => {
      const shape = { inChannels: 2, outChannels: 9, size: [0, 3], kernel: [1, 1], dtype } as const;
      for (const more of [{ bias: true }, { groups: 1 }])
        await check(device(), { ...shape, padding: [2, 0, 1, 1], ...more });
    });

    it(`gives the bias, or zeros, in ${dtype} where there are no input channels`, async () => {
      for (const bias of [true, false])
        await check(device(), {
          inChannels: 0,
          outChannels: 5,
          size: [4, 3],
          kernel: [2, 2],
          bias,
          dtype,
          offset: 1,
        });
    });
  }

  it("is right on both sides of every threshold between kernels", async () => {
    const chosen = new Set<string>();
    const wide = { inChannels: 2, kernel: [3, 3], padding: [1, 1, 1, 1] } as const;
    const sides: readonly Case[] = [
      { ...wide, outChannels: 33, size: [92, 92] },
      { ...wide, outChannels: 32, size: [92, 92] },
      { ...wide, outChannels: 33, size: [60, 60] },
      { ...wide, outChannels: 8, size: [5, 5] },
      { ...wide, outChannels: 7, size: [5, 5] },
      { ...wide, outChannels: 2, size: [16, 17], groups: 2, dilation: [1, 2] },
      ...[3, 5, 7].map((side) => ({ ...depthwise(side, 1)[0]!, bias: false })),
      ...[3, 5].map((side) => ({ ...depthwise(side, 2)[0]!, bias: false })),
      { ...channelsLast[0]!, bias: false },
      { ...denseLast[0]!, bias: false },
    ];
    for (const shape of sides) {
      await check(device(), shape, undefined, asLargeGpu);
      chosen.add(device().programs[0]!.replace(/_f32.*/, ""));
    }
    const table = plainVariants.filter(
      ({ name }) => !/^gemm|_(256|128)x128x|^channels_[24]|^dense_4/.test(name),
    );
    assert.lengthOf(chosen, table.length, [...chosen].join(", "));
  });

  it("computes more groups than workgroups fit in one dimension", async () => {
    const channels = 66_001;
    const shape: Case = {
      inChannels: channels,
      outChannels: channels,
      groups: channels,
      size: [1, 1],
      kernel: [1, 1],
    };
    await check(device(), shape);
  });
});
