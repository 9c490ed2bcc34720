import { type Conv2dProblem, type DType, dtypes } from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/context.js";
import { convVariants, runConv } from "#src/kernels/conv2d/index.js";
import type { DeviceMemory } from "#src/memory.js";
import {
  asLargeGpu,
  type Expected,
  finalRounding,
  gamma,
  type ProductDevice,
  signed,
  withProducts,
} from "./products.js";

interface Case {
  readonly batch?: number;
  readonly inChannels: number;
  readonly outChannels: number;
  readonly size: readonly [height: number, width: number];
  readonly kernel: readonly [height: number, width: number];
  readonly stride?: readonly [y: number, x: number];
  readonly padding?: readonly [top: number, left: number, bottom: number, right: number];
  readonly dilation?: readonly [y: number, x: number];
  readonly groups?: number;
  readonly bias?: boolean;
  readonly dtype?: DType;
  /** Elements in front of every operand. */
  readonly offset?: number;
}

function geometry(
  shape: Case,
): Omit<Conv2dProblem<DeviceMemory>, "dtype" | "input" | "filter" | "bias" | "output"> {
  const { batch = 1, inChannels, outChannels, groups = 1 } = shape;
  const [height, width] = shape.size;
  const [kernelHeight, kernelWidth] = shape.kernel;
  const [strideY, strideX] = shape.stride ?? [1, 1];
  const [top, left, bottom, right] = shape.padding ?? [0, 0, 0, 0];
  const [dilationY, dilationX] = shape.dilation ?? [1, 1];
  const along = (size: number, kernel: number, stride: number, dilation: number) =>
    Math.floor((size - dilation * (kernel - 1) - 1) / stride) + 1;
  return {
    ...{ batch, inChannels, outChannels, groups, height, width, kernelHeight, kernelWidth },
    ...{ strideY, strideX, top, left, bottom, right, dilationY, dilationX },
    outHeight: along(height + top + bottom, kernelHeight, strideY, dilationY),
    outWidth: along(width + left + right, kernelWidth, strideX, dilationX),
  };
}

type Operands = Readonly<Record<"input" | "filter" | "bias", Float32Array>>;

/** The formula, in f64, with the error bound of a sum of that many terms. */
function* reference(
  p: ReturnType<typeof geometry>,
  { input, filter, bias }: Operands,
  dtype: DType,
): Generator<Expected> {
  const channels = p.inChannels / p.groups;
  const taps = channels * p.kernelHeight * p.kernelWidth;
  let index = 0;
  for (let b = 0; b < p.batch; b++)
    for (let o = 0; o < p.outChannels; o++)
      for (let y = 0; y < p.outHeight; y++)
        for (let x = 0; x < p.outWidth; x++, index++) {
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
                const term =
                  weight * input[((b * p.inChannels + first + c) * p.height + row) * p.width + column]!;
                value += term;
                magnitude += Math.abs(term);
              }
          yield { index, value, tolerance: gamma(taps + 4) * magnitude + finalRounding(dtype, value) };
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
  const problem = { dtype, ...sizes, ...regions, bias: shape.bias ? regions.bias : undefined };
  const label = JSON.stringify({ ...shape, forced });
  await device.check(regions.output, dtype, reference(sizes, operands, dtype), label, () =>
    device.run((context) => runConv(context, problem, forced), features),
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

describe("webgpu conv2d", function () {
  this.timeout(120_000);
  const device = withProducts();

  for (const dtype of dtypes) {
    for (const { name, kind } of convVariants)
      if (kind !== "gemm")
        it(`${name} is right in ${dtype} for every kind of geometry`, async () => {
          for (const [i, shape] of shapes.entries())
            await check(device(), { ...shape, dtype, offset: i % 3 }, name);
        });

    it(`computes 1 x 1 filters in ${dtype} as a product of matrices, or not`, async () => {
      const shape: Case = { inChannels: 6, outChannels: 10, size: [5, 7], kernel: [1, 1], batch: 2, dtype };
      await check(device(), shape);
      assert.match(device().programs[0]!, /^gemm/);
      for (const change of [
        { stride: [2, 1] },
        { padding: [0, 0, 0, 1] },
        { groups: 2 },
        { bias: true },
      ] as const) {
        await check(device(), { ...shape, ...change });
        assert.match(device().programs[0]!, /^conv2d/);
      }
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
    for (const shape of [
      { ...wide, outChannels: 33, size: [92, 92] },
      { ...wide, outChannels: 32, size: [92, 92] },
      { ...wide, outChannels: 33, size: [60, 60] },
      { ...wide, outChannels: 8, size: [5, 5] },
      { ...wide, outChannels: 7, size: [5, 5] },
      { ...wide, outChannels: 2, size: [16, 17], groups: 2 },
    ] as const) {
      await check(device(), shape, undefined, asLargeGpu);
      chosen.add(device().programs[0]!.replace(/_f32.*/, ""));
    }
    assert.lengthOf(chosen, convVariants.length - 1, [...chosen].join(", "));
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

  it("halves f16 problems whose f32 results would not fit one binding", async () => {
    const small = (real: DeviceFeatures): DeviceFeatures => ({
      ...real,
      limits: { ...real.limits, maxStorageBufferBindingSize: 1024 },
    });
    const shape: Case = {
      inChannels: 1,
      outChannels: 3,
      size: [5, 5],
      kernel: [2, 2],
      batch: 11,
      dtype: "f16",
      bias: true,
    };
    await check(device(), shape, undefined, small);
    assert.isAbove(device().programs.length, 2);
  });
});
