import { variantNames, webgpu } from "@backplane/backend-webgpu";
import { BackendError, type ConvolutionTile } from "@backplane/core";
import { assert, expect } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { type AttentionShape, attentionVariants, selectAttention } from "#src/kernels/attention/index.js";
import { gradientVariants } from "#src/kernels/attention-gradient/variants.js";
import { type ConvShape, convVariants, selectConv } from "#src/kernels/conv2d/index.js";
import { filterGradientVariants } from "#src/kernels/conv2d-filter-gradient/index.js";
import { gemmVariants, selectGemm } from "#src/kernels/gemm/index.js";
import { selectVariant, type Variant } from "#src/kernels/variant.js";
import { driverOf, portable } from "./support.js";
import {
  emulated,
  large,
  product,
  roomy,
  roomyEmulated,
  slowlyCompiled,
  tiny,
  withMatrices,
  withSplitting,
} from "./variant-cases.js";

const needMore = [
  "transformed_4x4",
  "transformed_2x2",
  "split_128x128x64_64x32",
  "packed_256x128x2x8_16x8",
  "tiled_256x128x16_16x8",
  "tiled_128x128x16_16x8",
  "matrices_128x256x32_64x64",
  "matrices_256x128x32_64x64",
  "matrices_128x128x32_64x64",
  "matrices_64x128x32_32x64",
  "matrices_32x32_2_32x32_2",
  "matrices_32x32_2_128x32_4",
  "matrices_128x32_8_2_64x32_4",
  "split_128x32_8x2_v",
  "split_128x32_8",
  "matrices_64x32_4_s",
  "matrices_256x32_16x2_v",
  "matrices_128x32_4",
  "matrices_128x32_8x2_v",
  "tiled_128x128_turns",
  "tiled_128x128",
  "decode_4",
  "tiled_16x32x32",
  "tiled_128x64x16_kept",
  "tiled_128x64x16",
  "tiled_64x64x16_kept",
  "tiled_64x64x16",
  "tiled_32x32x32",
  "implicit_256x128x16_16x8",
  "implicit_128x128x16_16x8",
];

const convolution = (groupOutputs: number, pixels: number, more: Partial<ConvShape> = {}): ConvShape => ({
  ...{ dtype: "f32", batch: 1, groups: 1, groupOutputs, taps: 27, pixels, pointwise: false },
  window: undefined,
  ...more,
});
const convName = (shape: ConvShape, features = portable) => selectConv(shape, features).variant.name;

const attending = (rows: number, keyLength: number, more: Partial<AttentionShape> = {}): AttentionShape => ({
  ...{ dtype: "f32", matrices: 1, rows, keyLength, headSize: 64, wholeEights: false, bare: true },
  ...more,
});

describe("webgpu variants", () => {
  it("have names of their own, and all but a few run on the least that WebGPU guarantees", () => {
    for (const table of [
      gemmVariants,
      convVariants,
      attentionVariants,
      gradientVariants,
      filterGradientVariants,
    ]) {
      assert.lengthOf(new Set(table.map(({ name }) => name)), table.length);
      for (const variant of table)
        assert.equal(variant.requires(portable), !needMore.includes(variant.name), variant.name);
    }
  });

  it("of conv2d are chosen by shape and device", () => {
    assert.equal(convName(convolution(256, 93 * 128), large), "implicit_256x128x16_16x8");
    assert.equal(convName(convolution(256, 92 * 128), large), "implicit_64x64x16_8x8");
    assert.equal(convName(convolution(256, 133 * 128), large), "implicit_64x64x16_8x8", "a second round");
    assert.equal(convName(convolution(384, 176 * 128), large), "implicit_128x128x16_16x8");
    assert.equal(convName(convolution(128, 264 * 128), large), "implicit_128x128x16_16x8");
    assert.equal(convName(convolution(128, 200 * 128), large), "implicit_64x64x16_8x8");
    assert.equal(convName(convolution(256, 132 * 128)), "implicit_64x64x16_8x8", "too little memory");
    assert.equal(convName(convolution(64, 132 * 64)), "implicit_64x64x16_8x8");
    assert.equal(convName(convolution(64, 131 * 64)), "implicit_32x32x16_4x4");
    assert.equal(convName(convolution(32, 1e6)), "implicit_32x32x16_4x4");
    assert.equal(convName(convolution(8, 1e6)), "implicit_32x32x16_4x4");
    assert.equal(convName(convolution(7, 1e6)), "direct_4x128");
    assert.equal(convName(convolution(1, 1e6, { groups: 64 })), "direct_1x64");
    assert.equal(convName(convolution(64, 1e6, { taps: 0 })), "direct_4x128");
  });

  it("of conv2d transform large convolutions, where the option allows it", () => {
    const name = (tile: ConvolutionTile, channels: number, batch: number, side: number) =>
      convName(
        convolution(channels, batch * side * side, {
          ...{ batch, taps: 9 * channels, transformable: { height: side, width: side } },
        }),
        { ...large, transformedConvolutions: tile },
      ).split("_", 2);
    assert.deepEqual(name("4x4", 64, 32, 56), ["transformed", "4x4"]);
    assert.deepEqual(name("2x2", 128, 32, 56), ["transformed", "2x2"]);
    assert.notInclude(name("2x2", 64, 32, 56), "transformed");
    assert.notInclude(name("4x4", 64, 1, 56), "transformed", "too small");
    assert.deepEqual(name("4x4", 512, 1, 14), ["transformed", "2x2"], "few tiles");
    assert.notInclude(name("4x4", 512, 64, 1), "transformed", "mostly padding");
  });

  it("of conv2d stage less where a GPU is emulated", () => {
    assert.equal(convName(convolution(256, 1e6), roomyEmulated), "implicit_64x64x16_8x8");
    assert.equal(convName(convolution(33, 1), emulated), "implicit_64x64x16_8x8");
    assert.equal(convName(convolution(33, 1), slowlyCompiled), "implicit_32x32x16_4x4");
    assert.equal(convName(convolution(32, 1e6), emulated), "implicit_32x32x16_4x4");
    assert.equal(convName(convolution(17, 1e6), emulated), "implicit_32x32x16_4x4");
    assert.equal(convName(convolution(16, 1e6), emulated), "direct_4x128");
    const window = { side: 3, stride: 1 };
    assert.equal(convName(convolution(64, 1e6, { taps: 9, window }), emulated), "strip_3x3s1_4x4");
  });

  it("of conv2d are products of matrices for filters of one tap, unless small images make many tiles end", () => {
    const pointwise = { pointwise: true, taps: 64 };
    assert.equal(convName(convolution(64, 56 * 56, pointwise)), "gemm");
    const batch = { ...pointwise, batch: 32 };
    assert.equal(convName(convolution(64, 32 * 49 * 49, batch)), "implicit_64x64x16_8x8");
    assert.equal(convName(convolution(7, 32 * 49 * 49, batch)), "gemm");
    assert.equal(convName(convolution(64, 32 * 49 * 49, batch), emulated), "gemm");
    const halves = { ...batch, dtype: "f16" } as const;
    assert.equal(convName(convolution(64, 32 * 49 * 49, halves), withMatrices), "gemm");
    assert.equal(convName(convolution(64, 32 * 49 * 49, halves)), "implicit_64x64x16_8x8");
  });

  it("of conv2d keep windows of single channels in registers", () => {
    const depthwise = (side: number, stride: number) =>
      convName(convolution(1, 1e6, { groups: 64, taps: side * side, window: { side, stride } }));
    assert.deepEqual(
      [depthwise(3, 1), depthwise(3, 2), depthwise(5, 1), depthwise(5, 2), depthwise(7, 1)],
      ["strip_3x3s1_4x4", "strip_3x3s2_2x4", "strip_5x5s1_4x4", "strip_5x5s2_2x4", "strip_7x7s1_4x4"],
    );
    assert.equal(depthwise(7, 2), "direct_1x64");
    assert.equal(depthwise(4, 1), "direct_1x64");
    const two = convolution(2, 1e6, { groups: 64, window: { side: 3, stride: 1 } });
    assert.equal(convName(two), "direct_4x128");
  });

  it("of conv2d take channels last as they lie, several rows at a time where many are left", () => {
    const last = (pixels: number, taps = 9, features = portable) =>
      convName(convolution(1, pixels, { groups: 256, taps, channelsLast: true }), features);
    assert.equal(last(14 * 14), "channels_1x4");
    assert.equal(last(32 * 56 * 56), "channels_4x4");
    assert.equal(last(32 * 56 * 56, 25), "channels_1x4", "too many weights for registers");
    assert.equal(last(32 * 56 * 56, 9, emulated), "channels_1x4");
    const forced = convolution(1, 100, { groups: 256, taps: 9, channelsLast: true });
    assert.equal(selectConv(forced, portable, "direct_4x128").variant.name, "channels_1x4");
    assert.notMatch(convName(convolution(1, 1e6, { groups: 256, taps: 9 })), /^channels/);
  });

  it("of conv2d take few channels that are last as they lie, several pixels at a time where many are left", () => {
    const last = (pixels: number, outputs = 32) =>
      convName(convolution(outputs, pixels, { taps: 27, channelsLast: true }));
    assert.equal(last(64 * 64), "dense_1");
    assert.equal(last(32 * 112 * 112), "dense_4");
    const forced = convolution(32, 100, { taps: 27, channelsLast: true });
    assert.equal(selectConv(forced, portable, "channels_1x4").variant.name, "dense_1");
  });

  it("of conv2d do not split numbers of images that stay channels last, not even if forced or tuned to", () => {
    const shape = convolution(4, 64, { taps: 32, splittable: 8 });
    const name = (more: Partial<ConvShape>) =>
      selectConv({ ...shape, ...more }, withSplitting, "split_128x128x64_64x32").variant.name;
    assert.equal(name({}), "split_128x128x64_64x32");
    assert.match(name({ channelsLast: true }), /^dense/);
  });

  it("of conv2d split long sums only where there are few results", () => {
    const parts = (shape: ConvShape, features = portable) =>
      Math.ceil(shape.taps / selectConv(shape, features).partDepth);
    assert.equal(parts(convolution(64, 56 * 56, { taps: 576 })), 4);
    assert.equal(parts(convolution(256, 56 * 56, { taps: 2304 })), 4);
    assert.equal(parts(convolution(64, 56 * 56, { taps: 511 })), 1);
    assert.equal(parts(convolution(64, 1e6, { taps: 2304 })), 1);
    assert.equal(parts(convolution(64, 56 * 56, { taps: 576 }), emulated), 1);
    assert.equal(selectConv(convolution(8, 64, { taps: 5000 }), portable).partDepth % 32, 0);
    assert.equal(selectConv(convolution(4, 64, { taps: 5000 }), portable).partDepth, 5000);
  });

  it("of attention are chosen by shape, and split long rows of keys of few queries", () => {
    const choose = (shape: AttentionShape, features = portable) => selectAttention(shape, features);
    const name = (shape: AttentionShape, features = roomy) => choose(shape, features).variant.name;
    assert.equal(name(attending(16, 100)), "tiled_16x32");
    assert.equal(name(attending(17, 100)), "tiled_64x128");
    assert.equal(name(attending(2048, 2048, { matrices: 8 })), "tiled_128x128_turns");
    assert.equal(name(attending(2048, 2048, { matrices: 8, headSize: 128 })), "tiled_128x128");
    assert.equal(name(attending(2048, 2048, { matrices: 7 })), "tiled_64x128");
    assert.equal(name(attending(2048, 2048, { matrices: 8 }), portable), "tiled_64x128");
    assert.equal(name(attending(2048, 2048, { matrices: 8 }), emulated), "tiled_16x32");
    assert.equal(name(attending(17, 2048), roomyEmulated), "tiled_32x32x32");
    assert.equal(name(attending(16, 2048, { wholeEights: true }), roomyEmulated), "tiled_16x32x32");
    assert.equal(name(attending(2048, 2048), slowlyCompiled), "tiled_16x32x32");
    assert.equal(name(attending(8, 128, { wholeEights: true })), "thin_4");
    assert.equal(name(attending(8, 127, { wholeEights: true })), "tiled_16x32");
    assert.equal(name(attending(9, 256, { wholeEights: true })), "tiled_16x32");
    assert.equal(name(attending(8, 256)), "tiled_16x32");
    const decoding = attending(4, 4096, { dtype: "f16", wholeEights: true });
    assert.equal(name(decoding, portable), "thin_4");
    assert.equal(choose(decoding, portable).partKeys, 128);
    for (const [subgroupMinSize, subgroupIds, expected] of [
      [32, true, "decode_4"],
      [16, true, "thin_4"],
      [32, false, "thin_4"],
    ] as const) {
      const features = { ...portable, subgroups: true, subgroupIds, subgroupMinSize };
      assert.equal(name(decoding, features), expected);
      assert.equal(name({ ...decoding, dtype: "f32", headSize: 128 }, features), expected);
      assert.equal(name({ ...decoding, dtype: "f32", headSize: 136 }, features), "thin_4");
    }
    const shuffling = { ...portable, subgroups: true, subgroupIds: true, subgroupMinSize: 32 };
    for (const [rows, keyLength, expected] of [
      [4, 1, "decode_4"],
      [5, 63, "tiled_16x32"],
      [5, 64, "decode_4"],
      [9, 64, "tiled_16x32"],
    ] as const)
      assert.equal(name({ ...decoding, rows, keyLength }, shuffling), expected, `${rows} x ${keyLength}`);
    // 528 workgroups at a time, in steps of 64 keys; or some 2,100, where these would leave more than a quarter.
    for (const [matrices, partKeys] of [
      [1, 64],
      [8, 256],
      [33, 1024],
      [100, 3328],
      [110, 4096],
      [190, 1536],
      [528, 16384],
      [529, 5504],
      [5000, 16384],
    ] as const)
      assert.equal(
        choose({ ...decoding, keyLength: 16384, matrices }, withMatrices).partKeys,
        partKeys,
        `${matrices} matrices`,
      );
    assert.equal(name({ ...decoding, matrices: 65_536 }), "tiled_16x32");
    assert.equal(choose(attending(1, 100)).partKeys, 100);
    assert.isBelow(choose(attending(1, 16384)).partKeys, 16384 / 32);
    assert.equal(choose(attending(1, 16384), emulated).partKeys, 16384);
    assert.equal(choose(attending(1, 16384, { matrices: 200 })).partKeys, 16384);
    const columns = (headSize: number) => {
      const choice = choose(attending(1, 1, { headSize }));
      return choice.kind === "tiled" ? choice.columns : undefined;
    };
    assert.deepEqual([1, 32, 33, 64, 65, 128, 129].map(columns), [32, 32, 64, 64, 128, 128, 128]);
  });

  it("of attention go by parts of f16 where the option allows it, if there is much to do and all is aligned", () => {
    const name = (more: Partial<AttentionShape> = {}, rows = 2048, features = withSplitting) => {
      const shape = attending(rows, 2048, { matrices: 16, wholeEights: true, ...more });
      return selectAttention(shape, features).variant.name;
    };
    const [short, long] = ["split_128x32_8x2_v", "split_128x32_8"];
    assert.deepEqual(
      [64, 72, 128].map((headSize) => name({ headSize })),
      [short, long, long],
    );
    assert.equal(name({ headSize: 32, matrices: 32 }), short);
    for (const more of [
      { headSize: 24, matrices: 64 },
      { headSize: 136 },
      { bare: false },
      { wholeEights: false },
      { keyLength: 1023, matrices: 64 },
      { headSize: 32, matrices: 31 },
      { matrices: 15 },
      { matrices: 7, keyLength: 8192 },
    ])
      assert.match(name(more), /^tiled/, JSON.stringify(more));
    assert.equal(name({ matrices: 64 }, 1024), short);
    assert.match(name({ matrices: 64 }, 1023), /^tiled/);
    assert.match(name({}, 2048, withMatrices), /^tiled/);
    assert.equal(name({ dtype: "f16" }), "matrices_64x32_4_s");
  });

  it("of attention take matrix units for many rows in f16 where they are and all is aligned", () => {
    const halves = (rows: number, more: Partial<AttentionShape> = {}) =>
      attending(rows, 2048, { dtype: "f16", wholeEights: true, ...more });
    const choose = (shape: AttentionShape, features = withMatrices) => selectAttention(shape, features);
    const name = (...args: Parameters<typeof choose>) => choose(...args).variant.name;
    assert.equal(name(halves(17)), "matrices_64x32_4_s");
    assert.equal(name(halves(2048, { matrices: 32 })), "matrices_64x32_4_s");
    assert.equal(name(halves(2048, { matrices: 33 })), "matrices_128x32_4");
    assert.equal(name(halves(17, { headSize: 72 })), "matrices_64x32_4_s");
    assert.equal(name(halves(2048, { headSize: 72, matrices: 4 })), "matrices_64x32_4_s");
    assert.equal(name(halves(2048, { headSize: 72, matrices: 5 })), "matrices_128x32_8x2_v");
    const limits = { ...withMatrices.limits, maxComputeInvocationsPerWorkgroup: 512 };
    assert.equal(name(halves(2048, { matrices: 33 }), { ...withMatrices, limits }), "matrices_256x32_16x2_v");
    assert.equal(name(halves(384, { matrices: 300 }), { ...withMatrices, limits }), "matrices_128x32_4");
    assert.equal(name(halves(17, { headSize: 136 })), "tiled_64x128");
    assert.equal(name(halves(16)), "tiled_16x32");
    assert.equal(name(halves(8)), "decode_4");
    assert.equal(name(halves(2048, { wholeEights: false })), "tiled_64x128");
    assert.equal(name(halves(2048, { dtype: "f32" })), "tiled_64x128");
    assert.equal(name(halves(2048), roomy), "tiled_64x128");
    for (const lacking of [{ subgroupMatrices: ["8x8x8"] }, { subgroupMinSize: 16 }, { subgroupMaxSize: 64 }])
      assert.equal(name(halves(2048), { ...withMatrices, ...lacking }), "tiled_64x128");
    const columns = (headSize: number) => {
      const choice = choose(halves(64, { headSize }));
      return choice.kind === "matrices" ? choice.columns : undefined;
    };
    assert.deepEqual([8, 64, 72, 128, 136].map(columns), [64, 64, 128, 128, undefined]);
    assert.equal(choose(halves(2048, { matrices: 64 })).partKeys, 2048);
    assert.isBelow(choose(halves(64)).partKeys, 2048);
  });

  it("can be forced by name where they fit and are possible", () => {
    const shape = product(64, 64, 64);
    for (const { name, fits } of gemmVariants)
      assert.equal(selectGemm(shape, withSplitting, name).variant.name === name, fits(shape), name);
    assert.equal(
      selectGemm(shape, tiny, "tiled_64x64x16_8x8").variant.name,
      "tiled_32x32x16_4x4",
      "not possible on this device",
    );
    try {
      selectConv(convolution(1, 1), portable, "fastest");
      assert.fail("an unknown name was accepted");
    } catch (error) {
      assert.instanceOf(error, BackendError);
      assert.equal((error as BackendError).code, "INVALID_ARGUMENT");
    }
  });

  it("are asked once for each device what they require, and at each call which shapes they fit", () => {
    const asked: string[] = [];
    const row = (name: string, least: number): Variant<{ readonly m: number }> => ({
      name,
      requires({ subgroupMinSize }) {
        asked.push(name);
        return subgroupMinSize >= least;
      },
      fits: ({ m }) => m < 100,
      prefers: ({ m }) => m < 10,
    });
    const table = [row("wide", 32), row("narrow", 0)];
    const wide: DeviceFeatures = { ...portable, subgroupMinSize: 32 };
    const name = (m: number, features: DeviceFeatures) => selectVariant("gemm", table, { m }, features).name;
    for (let call = 0; call < 3; call++) {
      assert.equal(name(1, wide), "wide");
      assert.equal(name(99, wide), "narrow");
      assert.equal(name(1, portable), "narrow");
      assert.throws(() => name(100, wide), /no variant/);
    }
    assert.deepEqual(asked, ["wide", "narrow", "wide", "narrow"]);
  });

  it("are options by the names that variantNames lists, and other names are refused", () => {
    for (const [operation, names] of Object.entries(variantNames))
      for (const name of names) webgpu({ variants: { [operation]: name } });
    webgpu({ variants: {} });
    for (const [variants, argument, allowed] of [
      [{ gemm: "fastest" }, "variants.gemm", /fastest.*direct_8x16/],
      [{ conv2d: "" }, "variants.conv2d", /implicit_32x32x16_4x4/],
      [
        { unary: "direct_8x16" } as object,
        "variants.unary",
        /unary.*\battention\b.*\bgemm\b.*\bconv2dFilterGradient\b/,
      ],
      [null as unknown as object, "variants", /variants is null; allowed: an object/],
    ] as const)
      for (const make of [() => webgpu({ variants }), () => driverOf(async () => undefined, { variants })])
        expect(make).to.throw(BackendError, allowed).that.includes({ code: "INVALID_ARGUMENT", argument });
  });
});
