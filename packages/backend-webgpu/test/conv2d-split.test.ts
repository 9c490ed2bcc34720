// Tags: kernels, pure, long
import type { Activation, Conv2dProblem } from "@backplane/core";
import { assert } from "chai";
import { create } from "webgpu";
import type { DeviceFeatures } from "#src/device/features.js";
import { type ConvShape, conv2d, convVariants, splitting } from "#src/kernels/conv2d/index.js";
import { windowsProgram } from "#src/kernels/conv2d/split/product.wgsl.js";
import * as split from "#src/kernels/conv2d/split/split.js";
import { octavesFor } from "#src/kernels/gemm/split/split.js";
import { productTiles } from "#src/kernels/tiles/tile.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { type Convolution, type Geometry, geometry } from "./convolution-geometry.js";
import { withMatrixUnits, withoutMatrixUnits } from "./emulated-matrices.js";
import { type Expected, finishedSum, gamma, signed, withProducts } from "./products.js";
import { decode, random } from "./support.js";

const rows = convVariants.filter((variant) => variant.kind === "split");
const [row] = rows;

/** A device with matrix units, on which f32 products may be split. */
const onMatrixUnits = (real: DeviceFeatures): DeviceFeatures => ({
  ...withMatrixUnits(real),
  splitsProducts: true,
});

/** Smaller tiles, whose texts differ from the real one's by numbers only, and their own plain ones. */
const tiles = [
  {
    tile: { rows: 64, columns: 64, depth: 64, subgroupRows: 32, subgroupColumns: 32 },
    plain: productTiles.medium,
  },
  {
    tile: { rows: 64, columns: 32, depth: 32, subgroupRows: 32, subgroupColumns: 32 },
    plain: productTiles.small,
  },
] as const;

interface Case extends Omit<Convolution, "layout" | "groups"> {
  readonly bias?: boolean;
  readonly activation?: Activation;
  /** Elements in front of every operand. */
  readonly offset?: number;
}

type Operands = Readonly<Record<"input" | "filter" | "bias", Float32Array>>;

/** The formula, in f64, with the error bound of f32. Sums of anything that is not finite may be anything. */
function* reference(
  p: Geometry,
  { input, filter, bias }: Operands,
  activation: Activation | undefined,
): Generator<Expected> {
  const taps = p.inChannels * p.kernelHeight * p.kernelWidth;
  let index = 0;
  for (let b = 0; b < p.batch; b++)
    for (let o = 0; o < p.outChannels; o++)
      for (let y = 0; y < p.outHeight; y++)
        for (let x = 0; x < p.outWidth; x++, index++) {
          let value = bias[o] ?? 0;
          let magnitude = Math.abs(value);
          for (let i = 0; i < p.kernelHeight; i++)
            for (let j = 0; j < p.kernelWidth; j++) {
              const down = y * p.strideY + i * p.dilationY - p.top;
              const across = x * p.strideX + j * p.dilationX - p.left;
              if (down < 0 || across < 0 || down >= p.height || across >= p.width) continue;
              for (let c = 0; c < p.inChannels; c++) {
                const term =
                  filter[((o * p.inChannels + c) * p.kernelHeight + i) * p.kernelWidth + j]! *
                  input[((b * p.inChannels + c) * p.height + down) * p.width + across]!;
                value += term;
                magnitude += Math.abs(term);
              }
            }
          const bound = Number.isFinite(magnitude) ? gamma(taps + 1) * magnitude : Number.POSITIVE_INFINITY;
          yield Number.isFinite(magnitude)
            ? finishedSum(index, value, bound, "f32", activation)
            : { index, value: 0, tolerance: bound };
        }
}

describe("webgpu conv2d of split numbers", () => {
  const device = withProducts();
  let tile: (typeof tiles)[number] = tiles[0];

  before(() =>
    splitting.provide({
      enqueueSplit: (context, problem, variant, ...rest) =>
        split.enqueueSplit(context, problem, { ...variant, ...tile }, ...rest),
    }),
  );
  after(() => splitting.provide(split));

  /** The operands of a case, drawn from a seed. */
  function drawn(shape: Case): Operands {
    const { batch, inChannels, outChannels, height, width, kernelHeight, kernelWidth } = geometry(shape);
    return {
      input: signed(batch * inChannels * height * width, "f32", 1),
      filter: signed(outChannels * inChannels * kernelHeight * kernelWidth, "f32", 2),
      bias: signed(shape.bias ? outChannels : 0, "f32", 3),
    };
  }

  interface Run {
    /** Programs of these names do nothing. */
    readonly without?: RegExp;
  }

  /** Runs a case on operands; scratch holds NaN before. Calls `look` with the problem placed on the device. */
  async function run(
    shape: Case,
    operands: Operands,
    look: (problem: Conv2dProblem<DeviceMemory>, enqueue: () => void) => Promise<void>,
    { without }: Run = {},
  ): Promise<void> {
    const { offset = 0, activation } = shape;
    const sizes = geometry(shape);
    const count = sizes.batch * sizes.outChannels * sizes.outHeight * sizes.outWidth;
    const regions = {
      input: device().place(operands.input, "f32", offset),
      filter: device().place(operands.filter, "f32", offset),
      bias: device().place(operands.bias, "f32", offset),
      output: device().place(new Float32Array(count).fill(UNTOUCHED), "f32", offset),
    };
    const bias = shape.bias ? regions.bias : undefined;
    const problem: Conv2dProblem<DeviceMemory> = { dtype: "f32", ...sizes, ...regions, bias, activation };
    const programs: string[] = [];
    await look(problem, () =>
      device().driver.withContext((context) =>
        conv2d.run(
          {
            ...{ copy: context.copy.bind(context), fill: context.fill.bind(context) },
            features: onMatrixUnits(context.features),
            scratch: (bytes) => {
              const region = context.scratch(bytes);
              context.fill(region, 0xff);
              return region;
            },
            dispatch: (program, ...rest) => {
              programs.push(program.name);
              if (!without?.test(program.name)) context.dispatch(withoutMatrixUnits(program), ...rest);
            },
          },
          problem,
          row!.name,
        ),
      ),
    );
    assert.match(
      programs.join(),
      /^gemm_split_along_taps,.*conv2d_split_\d+x.*,conv2d_implicit_\w+_wide\w*$/,
    );
    device().free(...Object.values(regions));
  }

  const UNTOUCHED = 12345;

  async function check(shape: Case, operands: Operands = drawn(shape)): Promise<void> {
    const { activation } = shape;
    await run(shape, operands, ({ output }, enqueue) =>
      device().check(
        output,
        "f32",
        reference(geometry(shape), operands, activation),
        JSON.stringify(shape),
        enqueue,
      ),
    );
  }

  /** Which results are computed without some programs. */
  async function written(shape: Case, operands: Operands, without: RegExp): Promise<boolean[]> {
    let flags: boolean[] = [];
    await run(
      shape,
      operands,
      async ({ output }, enqueue) => {
        enqueue();
        const bytes = await device().bytes(output);
        const results = decode(
          bytes.subarray(output.byteOffset, output.byteOffset + output.byteLength),
          "f32",
        );
        flags = Array.from(results, (value) => value !== UNTOUCHED);
      },
      { without },
    );
    return flags;
  }

  // Two forms of results, as each takes seconds to compile.
  const quads = { bias: true } as const;
  const singles = { bias: true, activation: "silu" } as const;
  const cases: readonly Case[] = [
    // Tiles end within images and at the end, and quads of pixels lie in one image.
    {
      ...{ batch: 3, inChannels: 16, outChannels: 70, size: [6, 8], kernel: [3, 3], padding: [1, 1, 1, 1] },
      ...quads,
    },
    // Quads do not; several steps for each tap, the last of them padded; several tiles of channels to copy.
    { ...singles, batch: 5, inChannels: 70, outChannels: 9, size: [4, 5], kernel: [2, 3], offset: 1 },
    // Strides, dilation, and padding on some sides only.
    {
      ...{ batch: 2, inChannels: 8, outChannels: 65, size: [13, 11], kernel: [3, 2] },
      ...{ ...singles, stride: [2, 3], dilation: [2, 4], padding: [3, 0, 1, 5] },
    },
    {
      ...{ batch: 2, inChannels: 33, outChannels: 5, size: [9, 7], kernel: [1, 4] },
      ...{ ...singles, stride: [3, 1], dilation: [1, 2] },
    },
    // One tap.
    { ...quads, batch: 4, inChannels: 24, outChannels: 12, size: [4, 4], kernel: [1, 1], stride: [2, 2] },
    // Windows that see nothing but padding.
    { ...singles, inChannels: 16, outChannels: 4, size: [2, 3], kernel: [2, 2], padding: [4, 3, 0, 2] },
  ];
  for (const [number, one] of tiles.entries())
    it(`is right for every kind of geometry, in tile ${number}`, async () => {
      tile = one;
      for (const shape of number === 0 ? cases.slice(0, 1) : cases) await check(shape);
    });

  const images: Case = {
    ...{ batch: 4, inChannels: 16, outChannels: 70, size: [6, 6], kernel: [3, 3], padding: [1, 1, 1, 1] },
    ...quads,
  };
  const [IMAGE, FILTER] = [16 * 36, 16 * 9];

  it("keeps the bound where each image and filter has numbers of its own size", async () => {
    tile = tiles[0];
    const next = random(7);
    const spread = (values: Float32Array, length: number, step: number) =>
      values.map(
        (value, i) =>
          (next() < 0.1 ? 0 : value) * 2 ** (step * Math.floor(i / length) - Math.floor(20 * next())),
      );
    const { input, filter, bias } = drawn(images);
    await check(images, { input: spread(input, IMAGE, 18), filter: spread(filter, FILTER, -1), bias });
  });

  it("keeps the bound where the smallest numbers of an image or a filter meet nothing else", async () => {
    tile = tiles[0];
    const taps = 16 * 9;
    const next = random(9);
    const least = 2 ** -octavesFor(taps - 2);
    const small = (values: Float32Array, length: number) =>
      values.map((_, i) => (i % length === 0 ? 1 : least * (1 + next())));
    const { input, filter, bias } = drawn(images);
    const operands = { input: small(input, IMAGE), filter: small(filter, FILTER), bias };
    await check(images, operands);
    const flags = await written(images, operands, /^conv2d_implicit/);
    assert.notInclude(flags, false, "nothing is wide");
  });

  it("leaves blocks with wide images and filters to the plain kernel, and no others", async () => {
    tile = tiles[0];
    const below = 2 ** -(octavesFor(16 * 9 - 2) + 1);
    const planes = 36;
    for (const { image, filter, value } of [
      { image: 1, value: below },
      { image: 3, value: Number.NaN },
      { filter: 64, value: below },
      { filter: 3, value: Number.NEGATIVE_INFINITY },
      { image: 2, filter: 69, value: 2 ** -130 },
    ] as readonly { image?: number; filter?: number; value?: number }[]) {
      const ones = drawn(images);
      const operands = {
        input: ones.input.map(Math.sign),
        filter: ones.filter.map(Math.sign),
        bias: ones.bias,
      };
      // The last number of each, so that nothing of it is overlooked. If it is infinite, one that no padding meets.
      if (image !== undefined) operands.input[(image + 1) * IMAGE - 1] = value!;
      if (filter !== undefined)
        operands.filter[(filter + 1) * FILTER - (Number.isFinite(value) ? 1 : 5)] = value!;
      const label = JSON.stringify({ image, filter, value });
      await check(images, operands);
      const isWide = Array.from({ length: 4 * 70 * planes }, (_, i) => {
        const [of, pixel] = [
          Math.floor(i / planes) % 70,
          Math.floor(i / planes / 70) * planes + (i % planes),
        ];
        const first = pixel - (pixel % 64);
        const touched =
          image !== undefined && first < (image + 1) * planes && Math.min(first + 64, 144) > image * planes;
        return touched || (filter !== undefined && Math.floor(filter / 64) === Math.floor(of / 64));
      });
      assert.deepEqual(await written(images, operands, /^conv2d_split_\d+x/), isWide, `plain for ${label}`);
      assert.deepEqual(
        await written(images, operands, /^conv2d_implicit/),
        isWide.map((wide) => !wide),
        `split for ${label}`,
      );
    }
  });

  it("looks at every number of images that several workgroups look at", async () => {
    tile = tiles[1];
    const shape: Case = {
      ...{ batch: 2, inChannels: 16, outChannels: 4, size: [33, 33], kernel: [1, 1], stride: [4, 4] },
      ...singles,
    };
    const [size, planes, across] = [16 * 33 * 33, 81, 32];
    const { input, filter, bias } = drawn(shape);
    const ones = { input: input.map(Math.sign), filter: filter.map(Math.sign), bias };
    for (const [i, at] of [0, 4101, 8191, 8192, 14_001, size - 1].entries()) {
      const operands = { ...ones, input: ones.input.slice() };
      operands.input[size + at] = 2 ** -40;
      const expected = Array.from({ length: 2 * 4 * planes }, (_, j) => {
        const pixel = Math.floor(j / planes / 4) * planes + (j % planes);
        return pixel >= Math.floor(planes / across) * across;
      });
      const flags = await written({ ...shape, offset: i % 2 }, operands, /^conv2d_split_\d+x/);
      assert.deepEqual(flags, expected, `a small number at ${at}`);
    }
  });

  it("is chosen for large convolutions of one group, with the option", () => {
    const shape: ConvShape = {
      ...{ dtype: "f32", batch: 32, groups: 1, groupOutputs: 256, taps: 2304, pixels: 32 * 56 * 56 },
      ...{ pointwise: false, window: undefined, splittable: 256 },
    };
    const prefers = (change: Partial<ConvShape>) =>
      row!.fits({ ...shape, ...change }) && row!.prefers({ ...shape, ...change }, {} as DeviceFeatures);
    assert.isTrue(prefers({}));
    assert.isFalse(prefers({ splittable: undefined }), "not allowed");
    assert.isTrue(prefers({ pixels: 48 * 128 }));
    assert.isFalse(prefers({ pixels: 47 * 128 }), "few tiles");
    assert.isTrue(prefers({ taps: 512, splittable: 512, pixels: 132 * 128 }));
    assert.isFalse(prefers({ taps: 512, splittable: 512, pixels: 131 * 128 }), "few for one tap");
    assert.isTrue(prefers({ groupOutputs: 192 }));
    assert.isFalse(prefers({ groupOutputs: 64 }), "half empty tiles");
    assert.isFalse(prefers({ taps: 33 * 25, splittable: 33 }), "half empty steps");
    assert.isFalse(prefers({ taps: 511 }), "short sums");
  });

  it("is valid WGSL in every form", async () => {
    const gpu = create([
      "backend=null",
      "enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia",
    ]);
    const features = ["shader-f16", "subgroups", "chromium-experimental-subgroup-matrix"] as GPUFeatureName[];
    const adapter = (await gpu.requestAdapter())!;
    const dawn = await adapter.requestDevice({ requiredFeatures: features });
    const form = { dtype: "f32", target: "output" } as const;
    for (const one of [
      { ...form, bias: false, vectorOutput: true },
      { ...form, bias: true, vectorOutput: false, activation: "gelu" } as const,
    ]) {
      const { name, source } = windowsProgram(row!.tile, one);
      const { messages } = await dawn.createShaderModule({ code: source }).getCompilationInfo();
      const errors = messages.filter(({ type }) => type === "error");
      assert.deepEqual(
        errors.map(({ message }) => message),
        [],
        name,
      );
    }
    dawn.destroy();
  });
});
