// Tags: kernels, pure, long
import { type FloatType, floatTypes } from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { conv2dFilterGradient, filterGradientVariants } from "#src/kernels/conv2d-filter-gradient/index.js";
import { pixelsOfPart, stripsOfPart } from "#src/kernels/conv2d-filter-gradient/select.js";
import { type Convolution, type Geometry, geometry as geometryOf } from "./convolution-geometry.js";
import {
  asLargeGpu,
  type Expected,
  finalRounding,
  gamma,
  type ProductDevice,
  signed,
  withProducts,
} from "./products.js";
import { portable } from "./support.js";

interface Case extends Omit<Convolution, "layout" | "inChannels" | "outChannels"> {
  /** Channels of one group. */
  readonly inputs: number;
  readonly outputs: number;
  readonly accumulate?: boolean;
  readonly dtype?: FloatType;
  /** Elements in front of every operand. */
  readonly offset?: number;
}

function geometry({ inputs, outputs, ...shape }: Case): Geometry {
  const { groups = 1 } = shape;
  return geometryOf({ ...shape, inChannels: groups * inputs, outChannels: groups * outputs });
}

/** The formula, in f64, with the error bound of a sum of that many terms. */
function* reference(
  p: Geometry,
  input: Float32Array,
  gradient: Float32Array,
  before: Float32Array | undefined,
  dtype: FloatType,
): Generator<Expected> {
  const [inputs, outputs] = [p.inChannels / p.groups, p.outChannels / p.groups];
  let index = 0;
  for (let o = 0; o < p.outChannels; o++)
    for (let c = 0; c < inputs; c++)
      for (let i = 0; i < p.kernelHeight; i++)
        for (let j = 0; j < p.kernelWidth; j++, index++) {
          let value = before?.[index] ?? 0;
          let magnitude = Math.abs(value);
          for (let b = 0; b < p.batch; b++)
            for (let y = 0; y < p.outHeight; y++)
              for (let x = 0; x < p.outWidth; x++) {
                const row = y * p.strideY + i * p.dilationY - p.top;
                const column = x * p.strideX + j * p.dilationX - p.left;
                if (row < 0 || column < 0 || row >= p.height || column >= p.width) continue;
                const channel = b * p.inChannels + Math.floor(o / outputs) * inputs + c;
                const term =
                  gradient[((b * p.outChannels + o) * p.outHeight + y) * p.outWidth + x]! *
                  input[(channel * p.height + row) * p.width + column]!;
                value += term;
                magnitude += Math.abs(term);
              }
          const terms = p.batch * p.outHeight * p.outWidth + 4;
          yield { index, value, tolerance: gamma(terms) * magnitude + finalRounding(dtype, value) };
        }
}

async function check(
  device: ProductDevice,
  shape: Case,
  forced?: string,
  features?: (real: DeviceFeatures) => DeviceFeatures,
): Promise<void> {
  const { dtype = "f32", offset = 0, accumulate = false } = shape;
  const p = geometry(shape);
  const input = signed(p.batch * p.inChannels * p.height * p.width, dtype, 1);
  const gradient = signed(p.batch * p.outChannels * p.outHeight * p.outWidth, dtype, 2);
  const count = p.outChannels * shape.inputs * p.kernelHeight * p.kernelWidth;
  const before = signed(count, dtype, 3);
  const regions = {
    input: device.place(input, dtype, offset),
    outputGradient: device.place(gradient, dtype, offset),
    filterGradient: device.place(
      accumulate ? before : new Float32Array(count).fill(Number.NaN),
      dtype,
      offset,
    ),
  };
  const problem = { dtype, ...p, ...regions, accumulate };
  const expected = reference(p, input, gradient, accumulate ? before : undefined, dtype);
  const label = JSON.stringify({ ...shape, forced });
  await device.check(regions.filterGradient, dtype, expected, label, () =>
    device.run((context) => conv2dFilterGradient.run(context, problem, forced), features),
  );
  device.free(...Object.values(regions));
}

const shapes: readonly Case[] = [
  { inputs: 5, outputs: 7, size: [9, 7], kernel: [1, 1], batch: 2 },
  {
    inputs: 6,
    outputs: 33,
    size: [9, 8],
    kernel: [3, 3],
    stride: [2, 1],
    padding: [1, 2, 0, 3],
    accumulate: true,
  },
  {
    inputs: 2,
    outputs: 4,
    groups: 3,
    size: [12, 14],
    kernel: [3, 2],
    dilation: [2, 3],
    padding: [3, 0, 1, 2],
  },
  { inputs: 3, outputs: 35, size: [10, 10], kernel: [7, 5], stride: [2, 3], padding: [3, 2, 3, 2], batch: 2 },
  { inputs: 17, outputs: 9, size: [33, 2], kernel: [2, 1], batch: 3, accumulate: true },
  { inputs: 34, outputs: 20, size: [4, 6], kernel: [1, 1], groups: 2, batch: 3, offset: 8 },
  { inputs: 3, outputs: 2, size: [3, 3], kernel: [2, 2], padding: [9, 0, 0, 9] },
];

/** Where quads of pixels lie in one row or not, and rows of the input start aligned or not. */
function depthwise(side: number, stride: number): readonly Case[] {
  const same = (side - 1) / 2;
  const all = {
    inputs: 1,
    outputs: 1,
    groups: 3,
    kernel: [side, side],
    stride: [stride, stride],
    batch: 2,
  } as const;
  const pad = [same, same, same, same] as const;
  return [
    { ...all, size: [9 * stride, 12 * stride], padding: pad },
    { ...all, outputs: 2, size: [11, 13], padding: [0, side, 2, 0], offset: 1, accumulate: true },
    { ...all, size: [8, 16], padding: [side + 1, side - 1, 0, 3], offset: 8 },
  ];
}

describe("webgpu conv2dFilterGradient", () => {
  const device = withProducts();

  for (const dtype of floatTypes)
    for (const variant of filterGradientVariants) {
      const { name, kind } = variant;
      if (kind === "strip")
        it(`${name} is right in ${dtype} for aligned and other rows, and any padding`, async () => {
          // Those of the others differ by numbers only; the larger ones compile slowly on emulated devices.
          const forms = variant.tile.side === 3 ? 3 : dtype === "f32" && variant.tile.side === 5 ? 2 : 1;
          for (const shape of depthwise(variant.tile.side, variant.tile.stride).slice(0, forms)) {
            await check(device(), { ...shape, dtype }, name);
            assert.match(device().programs.join(), /_strip_/);
          }
        });
      else if (kind === "implicit" && variant.tile.rows > 64 && dtype === "f16") continue;
      else if (kind === "implicit" && variant.tile.rows > 32)
        // Its text differs from that of the smallest tile by numbers only, and compiles slowly on emulated devices.
        it(`${name} is right in ${dtype} where a tile is full, at its edges and beyond`, async () => {
          await check(
            device(),
            { inputs: 15, outputs: 130, size: [6, 6], kernel: [3, 3], padding: [1, 1, 1, 0], dtype },
            name,
          );
        });
      else
        it(`${name} is right in ${dtype} for every kind of geometry`, async () => {
          for (const [i, shape] of shapes.entries())
            await check(device(), { offset: i % 3, ...shape, dtype }, name);
        });
    }

  for (const dtype of floatTypes)
    it(`shares long sums in ${dtype} between workgroups of large GPUs`, async () => {
      const shape = { inputs: 3, outputs: 9, kernel: [2, 2], dtype, batch: 3 } as const;
      for (const more of [
        { size: [20, 21], accumulate: true },
        { size: [31, 18] },
        { size: [20, 21], groups: 2 },
      ] as const) {
        await check(device(), { ...shape, ...more }, undefined, asLargeGpu);
        assert.include(device().programs, "conv2d_filter_gradient_combine");
      }
      await check(device(), { ...depthwise(3, 1)[0]!, size: [36, 64], dtype }, undefined, asLargeGpu);
      assert.include(device().programs, "conv2d_filter_gradient_combine");
    });

  for (const dtype of floatTypes)
    it(`reads windows from a copy with channels last in ${dtype}, if many results need them`, async () => {
      const padded = {
        inputs: 4,
        outputs: 80,
        size: [20, 21],
        kernel: [3, 3],
        padding: [1, 1, 1, 1],
      } as const;
      const uneven: Case = {
        ...{ inputs: 8, outputs: 260, size: [24, 40], kernel: [3, 2], batch: 2 },
        ...{ stride: [2, 1], dilation: [1, 2], padding: [2, 0, 1, 3] },
      } as const;
      // Tiles of the copy, of 64 channels and pixels, that are not full.
      const several: Case = { ...padded, inputs: 68, outputs: 132, size: [12, 14], batch: 4 };
      for (const shape of [{ ...padded, batch: 3, accumulate: true, offset: 1 }, uneven, several]) {
        await check(device(), { ...shape, dtype }, undefined, asLargeGpu);
        assert.match(device().programs.join(), /conv2d_filter_gradient_\w+_channels_/);
      }
    });

  it("takes no copy where windows meet nothing but padding", async () => {
    const shape = { inputs: 4, outputs: 256, kernel: [3, 3], batch: 64, dtype: "f32" } as const;
    for (const more of [
      { size: [3, 16], stride: [8, 1], padding: [6, 1, 0, 1] },
      { size: [6, 16], stride: [8, 1], padding: [3, 1, 0, 1] },
    ] as const)
      await check(device(), { ...shape, ...more }, undefined, asLargeGpu);
  });

  it("does not multiply elements that no window meets", async () => {
    const p = geometry({ inputs: 1, outputs: 1, groups: 2, size: [6, 6], kernel: [3, 3], stride: [2, 2] });
    // The last row and the last column.
    const input = Float32Array.from({ length: 72 }, (_, i) =>
      i % 6 === 5 || Math.floor(i / 6) % 6 === 5 ? Number.POSITIVE_INFINITY : (i % 7) - 3,
    );
    const gradient = Float32Array.from({ length: 8 }, (_, i) => i - 3);
    const regions = {
      input: device().place(input, "f32"),
      outputGradient: device().place(gradient, "f32"),
      filterGradient: device().place(new Float32Array(18), "f32"),
    };
    const problem = { dtype: "f32", ...p, ...regions, accumulate: false } as const;
    await device().check(
      regions.filterGradient,
      "f32",
      reference(p, input, gradient, undefined, "f32"),
      "stride 2",
      () => device().run((context) => conv2dFilterGradient.run(context, problem)),
    );
    device().free(...Object.values(regions));
  });
});

describe("webgpu conv2dFilterGradient selection", () => {
  const large = asLargeGpu(portable);
  const shape = { dtype: "f32", groups: 1, pointwise: false, window: undefined } as const;
  const chosenFor = (groupOutputs: number, taps: number, pixels: number) =>
    filterGradientVariants.find(({ prefers }) => prefers({ ...shape, groupOutputs, taps, pixels }, large))!
      .name;

  it("takes tiles with few empty places", () => {
    const roomy = { ...large, limits: { ...large.limits, maxComputeWorkgroupStorageSize: 49_152 } };
    const roomiest = (more: object) =>
      filterGradientVariants.find(({ prefers }) =>
        prefers({ ...shape, groupOutputs: 256, taps: 2304, pixels: 100_352, ...more }, roomy),
      )!.name;
    assert.match(roomiest({}), /^implicit_256x128/);
    assert.match(roomiest({ pointwise: true }), /^implicit_128x128/);
    assert.match(chosenFor(64, 147, 401_408), /^implicit_64x64/);
    assert.match(chosenFor(20, 25, 36_864), /^implicit_32x32/);
  });

  it("divides long sums so that a large GPU is busy, in whole steps", () => {
    const wide = { ...shape, groupOutputs: 256, taps: 2304, pixels: 100_352 };
    const part = pixelsOfPart(wide, 18 * 256, large);
    assert.equal(part % 32, 0);
    // Three full rounds of 18 tiles, as one of 7 parts would leave 6 of 132 multiprocessors idle.
    assert.equal(Math.ceil(100_352 / part), 22);
    // The third round would gain 1%.
    const narrow = { ...wide, groupOutputs: 128, taps: 1152, pixels: 25_088 };
    assert.equal(Math.ceil(25_088 / pixelsOfPart(narrow, 9 * 128, large)), 28);
    assert.isAtLeast(pixelsOfPart({ ...wide, pixels: 100 }, 18 * 256, large), 100);
    const channels = { ...shape, groups: 256, groupOutputs: 1, taps: 9, pixels: 100_352 };
    const strips = stripsOfPart(channels, 25_088, 64, large);
    assert.equal(strips % 64, 0);
    assert.equal(Math.ceil(25_088 / strips), 3);
  });
});
