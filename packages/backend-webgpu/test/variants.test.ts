import { variantNames, webgpu } from "@backplane/backend-webgpu";
import { BackendError } from "@backplane/core";
import { assert, expect } from "chai";
import type { DeviceFeatures } from "#src/context.js";
import { WebGpuDriver } from "#src/driver.js";
import { type AttentionShape, attentionVariants, selectAttention } from "#src/kernels/attention/index.js";
import { type ConvShape, convVariants, selectConv } from "#src/kernels/conv2d/index.js";
import { type GemmShape, gemmVariants, selectGemm } from "#src/kernels/gemm/index.js";
import { selectVariant, type Variant } from "#src/kernels/variant.js";
import { portable } from "./support.js";

const emulated: DeviceFeatures = { ...portable, family: { name: "some software", isEmulated: true } };
const tiny: DeviceFeatures = {
  ...portable,
  limits: { ...portable.limits, maxComputeInvocationsPerWorkgroup: 64, maxComputeWorkgroupStorageSize: 5000 },
};

/** More workgroup memory than WebGPU guarantees. */
const large: DeviceFeatures = {
  ...portable,
  limits: { ...portable.limits, maxComputeWorkgroupStorageSize: 32768 },
};
const roomy: DeviceFeatures = {
  ...portable,
  limits: { ...portable.limits, maxComputeWorkgroupStorageSize: 49152 },
};
const withMatrices: DeviceFeatures = {
  ...roomy,
  ...{ shaderF16: true, subgroups: true, subgroupIds: true, subgroupMinSize: 32, subgroupMaxSize: 32 },
  subgroupMatrices: ["16x16x16", "16x8x16"],
};
/** As SwiftShader and lavapipe have it. */
const roomyEmulated: DeviceFeatures = { ...emulated, limits: large.limits };
const slowlyCompiled: DeviceFeatures = {
  ...roomyEmulated,
  family: { name: "slow software", isEmulated: true, compilesSlowly: true },
};
const withSplitting: DeviceFeatures = { ...withMatrices, splitsProducts: true };
const needMore = [
  "split_128x128x64_64x32",
  "packed_256x128x2x8_16x8",
  "tiled_256x128x16_16x8",
  "tiled_128x128x16_16x8",
  "matrices_128x256x32_64x64",
  "matrices_256x128x32_64x64",
  "matrices_128x128x32_64x64",
  "matrices_64x128x32_32x64",
  "matrices_64x32_4_s",
  "matrices_128x32_4",
  "matrices_128x32_8_s",
  "tiled_128x128",
  "decode_4",
  "tiled_16x32x32",
  "tiled_32x32x32",
  "implicit_256x128x16_16x8",
  "implicit_128x128x16_16x8",
];

const product = (m: number, n: number, k: number, more: Partial<GemmShape> = {}): GemmShape => ({
  ...{ dtype: "f32", m, n, k, batch: 1, transA: false, transB: false },
  ...{ vectorA: false, vectorB: false, wholeEights: false },
  ...more,
});
const gemmName = (shape: GemmShape, features = portable) => selectGemm(shape, features).variant.name;

const convolution = (groupOutputs: number, pixels: number, more: Partial<ConvShape> = {}): ConvShape => ({
  ...{ dtype: "f32", batch: 1, groups: 1, groupOutputs, taps: 27, pixels, pointwise: false },
  window: undefined,
  ...more,
});
const convName = (shape: ConvShape, features = portable) => selectConv(shape, features).variant.name;

const attending = (rows: number, keyLength: number, more: Partial<AttentionShape> = {}): AttentionShape => ({
  ...{ dtype: "f32", matrices: 1, rows, keyLength, headSize: 64, wholeEights: false },
  ...more,
});

describe("webgpu variants", () => {
  it("have names of their own, and all but a few run on the least that WebGPU guarantees", () => {
    for (const table of [gemmVariants, convVariants, attentionVariants]) {
      assert.lengthOf(new Set(table.map(({ name }) => name)), table.length);
      for (const variant of table)
        assert.equal(variant.requires(portable), !needMore.includes(variant.name), variant.name);
    }
  });

  it("of gemm are chosen by shape and device", () => {
    assert.equal(gemmName(product(4096, 4096, 255)), "tiled_64x64x16_8x8");
    assert.equal(gemmName(product(4096, 4096, 64), large), "tiled_256x128x16_16x8");
    assert.equal(gemmName(product(4096, 4096, 64, { transB: true }), large), "tiled_128x128x16_16x8");
    assert.equal(gemmName(product(4096, 4096, 64, { dtype: "f16" }), large), "tiled_128x128x16_16x8");
    assert.equal(gemmName(product(4096, 2048, 64), large), "tiled_256x128x16_16x8");
    assert.equal(gemmName(product(2048, 2048, 64), large), "tiled_128x128x16_16x8");
    assert.equal(gemmName(product(1024, 2048, 64), large), "tiled_128x128x16_16x8");
    assert.equal(gemmName(product(1024, 1024, 64), large), "tiled_64x64x16_8x8");
    assert.equal(gemmName(product(704, 768, 8)), "tiled_64x64x16_8x8");
    assert.equal(gemmName(product(704, 704, 8)), "tiled_32x32x16_4x4");
    assert.equal(gemmName(product(704, 704, 17)), "tiled_32x32x32_4x4");
    assert.equal(gemmName(product(512, 512, 767)), "tiled_32x32x32_4x4");
    assert.equal(gemmName(product(512, 512, 768)), "tiled_64x64x16_8x8");
    assert.equal(gemmName(product(128, 128, 65536), large), "tiled_128x128x16_16x8");
    assert.equal(gemmName(product(128, 128, 32768), large), "tiled_64x64x16_8x8");
    assert.equal(gemmName(product(64, 16384, 16384), large), "tiled_64x64x16_8x8");
    assert.equal(gemmName(product(128, 16384, 16384), large), "tiled_128x128x16_16x8");
    assert.equal(gemmName(product(32, 16384, 64)), "tiled_32x128x16_8x8");
    assert.equal(gemmName(product(16384, 32, 64)), "tiled_128x32x16_8x8");
    assert.equal(gemmName(product(33, 127, 64)), "tiled_32x32x32_4x4");
    assert.equal(gemmName(product(5, 5, 5, { transB: true })), "tiled_32x32x16_4x4");
    assert.equal(gemmName(product(4, 4096, 64)), "thin_b_places_16x16");
    assert.equal(gemmName(product(16, 4096, 64)), "thin_b_places_32x4");
    assert.equal(gemmName(product(8, 4096, 4096, { vectorB: true })), "streamed_8x256x32_8x4");
    assert.equal(gemmName(product(16, 4096, 4096, { vectorB: true })), "streamed_16x256x32_16x4");
    assert.equal(gemmName(product(32, 4096, 1024, { vectorB: true })), "tiled_32x128x16_8x8");
    assert.equal(gemmName(product(17, 4096, 4096, { vectorB: true })), "streamed_32x512x32_16x8");
    assert.equal(gemmName(product(4, 4096, 4096, { vectorB: true })), "thin_b_places_16x16");
    assert.equal(gemmName(product(16, 4096, 64, { vectorB: true })), "thin_b_places_32x4");
    for (const [m, n, k, batch, expected] of [
      [64, 64, 64, 792, "tiled_64x64x8_16x8"],
      [33, 64, 128, 792, "tiled_64x64x8_16x8"],
      [64, 64, 64, 791, "tiled_64x64x16_8x8"],
      [64, 65, 64, 792, "tiled_64x64x16_8x8"],
      [64, 64, 129, 792, "tiled_64x64x16_8x8"],
      [32, 64, 64, 792, "tiled_64x64x16_8x8"],
      [32, 32, 32, 791, "tiled_32x32x32_4x4"],
      [32, 32, 32, 792, "tiled_32x32x16_4x4"],
      [9, 16, 40, 792, "tiled_32x32x16_4x4"],
      [8, 16, 40, 792, "thin_b_places_32x4"],
      [16, 33, 40, 792, "thin_b_places_32x4"],
      [32, 127, 32, 4096, "tiled_64x64x16_8x8"],
      [32, 128, 32, 4096, "streamed_32x512x32_16x8"],
    ] as const)
      assert.equal(gemmName(product(m, n, k, { batch, vectorB: true })), expected);
    const many = product(64, 64, 64, { batch: 1024 });
    assert.equal(gemmName(many, { ...portable, subgroupMinSize: 64 }), "tiled_64x64x16_8x8");
    const rowsOfB = { transB: true, vectorA: true, vectorB: true };
    assert.equal(gemmName(product(16, 4096, 4096, rowsOfB)), "thin_b_k_8x16");
    assert.equal(gemmName(product(4096, 16, 4096, rowsOfB)), "thin_a_k_8x16");
    assert.equal(gemmName(product(17, 4096, 64)), "tiled_32x128x16_8x8");
    assert.equal(gemmName(product(1, 4096, 64, { transB: true })), "thin_b_k_4x32");
    assert.equal(gemmName(product(8, 4096, 64, { transB: true, vectorA: true })), "thin_b_k_4x32");
    assert.equal(gemmName(product(8, 4096, 64, { transB: true })), "tiled_32x128x16_8x8");
    assert.equal(gemmName(product(4096, 1, 64)), "thin_a_k_4x32");
    assert.equal(gemmName(product(4096, 4, 64, { transA: true })), "thin_a_places_16x16");
    assert.equal(gemmName(product(64, 32, 64), emulated), "direct_8x16");
    assert.equal(gemmName(product(64, 33, 64), emulated), "direct_8x64");
    assert.equal(gemmName(product(2, 33, 64), emulated), "direct_8x64");
    assert.equal(gemmName(product(1, 33, 64), emulated), "direct_1x64");
    assert.equal(gemmName(product(1, 2, 4096, { transB: true }), emulated), "direct_1x64");
    assert.equal(gemmName(product(64, 1, 1023), emulated), "direct_8x16");
    assert.equal(gemmName(product(64, 1, 1024), emulated), "thin_a_k_4x32");
    assert.equal(gemmName(product(64, 1, 1024, { transA: true }), emulated), "thin_a_places_16x16");
    assert.equal(gemmName(product(4096, 4096, 4096), tiny), "tiled_32x32x16_4x4");
  });

  it("of gemm are packed where that is a small part of the work, and there is room for copies", () => {
    const isPacked = (m: number, n: number, k: number, more: Partial<GemmShape> = {}, features = large) =>
      gemmName(product(m, n, k, { vectorA: true, vectorB: true, ...more }), features).startsWith("packed_");
    const packedBy = (m: number, n: number, features = large) => gemmName(product(m, n, 4096), features);
    assert.equal(packedBy(4096, 4096), "packed_256x128x2x8_16x8");
    assert.equal(packedBy(1920, 1920), "packed_256x128x2x8_16x8");
    assert.equal(packedBy(1792, 1792), "packed_128x64x2x8_8x8", "three quarters of one round");
    assert.equal(packedBy(2304, 2304), "packed_128x64x2x8_8x8", "a round and a quarter");
    assert.equal(packedBy(2305, 2689), "packed_128x64x2x8_8x8", "full rounds of tiles that are not full");
    assert.equal(packedBy(4096, 4096, portable), "packed_128x64x2x8_8x8", "too little memory");
    for (const dtype of ["f32", "f16"] as const)
      for (const transA of [false, true])
        for (const transB of [false, true])
          assert.isTrue(
            isPacked(4096, 4096, 4096, { dtype, transA, transB }),
            `${dtype} ${transA} ${transB}`,
          );
    assert.isTrue(isPacked(1536, 1536, 1536));
    assert.isFalse(isPacked(1536, 1536, 1440), "little to compute");
    assert.isFalse(isPacked(1408, 1408, 2048), "few tiles");
    assert.isTrue(isPacked(8192, 4096, 256));
    assert.isFalse(isPacked(8192, 4096, 255), "short sums");
    // A is copied where B can be used as it is, and the other way round.
    assert.isTrue(isPacked(512, 16384, 4096));
    assert.isFalse(isPacked(16384, 512, 4096));
    assert.isTrue(isPacked(16384, 512, 4096, { transA: true }));
    assert.isFalse(isPacked(16384, 512, 4104, { transA: true }), "k is not whole");
    assert.isFalse(isPacked(4096, 4096, 4104, { transA: true }), "nothing to gain");
    assert.isTrue(isPacked(4096, 4096, 4104));
    assert.isTrue(isPacked(1024, 1024, 1024, { batch: 16 }));
    assert.isFalse(isPacked(1024, 896, 1024, { batch: 16 }));
    // More is gained where the other kernels are slow.
    assert.isTrue(isPacked(1024, 1024, 1024, { batch: 16, transB: true }));
    assert.isFalse(isPacked(768, 768, 1024, { batch: 16, transB: true }));
    const wide = { ...large, limits: { ...large.limits, maxStorageBufferBindingSize: 2 ** 31 - 4 } };
    assert.isFalse(isPacked(8192, 8192, 8192), "a copy would not fit a binding");
    assert.isTrue(isPacked(8192, 8192, 8192, { transB: true }, wide));
    assert.isFalse(isPacked(8193, 8192, 8192, { transB: true }, wide), "more than is kept for the next call");
    assert.isTrue(isPacked(8193, 8192, 8192, {}, wide));
    assert.isFalse(isPacked(8192, 8192, 8192, { dtype: "f16" }, wide), "the sums, too");
    assert.isTrue(isPacked(8192, 8192, 2048, { dtype: "f16" }, wide));
    assert.isFalse(isPacked(4096, 4096, 4096, {}, roomyEmulated));
  });

  it("of gemm take matrix units for f16 where they are, subgroups have one size, and all is aligned or copies pay", () => {
    const halves = (m: number, more: Partial<GemmShape> = {}) =>
      product(m, m, 64, { dtype: "f16", vectorA: true, vectorB: true, wholeEights: true, ...more });
    assert.equal(gemmName(halves(4096), withMatrices), "matrices_128x256x32_64x64");
    assert.equal(gemmName({ ...halves(2048), n: 4224 }, withMatrices), "matrices_128x256x32_64x64");
    for (const transposed of [{ transA: true }, { transB: true }])
      assert.equal(gemmName(halves(4096, transposed), withMatrices), "matrices_256x128x32_64x64");
    assert.equal(gemmName(halves(2048), withMatrices), "matrices_128x128x32_64x64");
    assert.equal(gemmName(halves(1024), withMatrices), "matrices_64x128x32_32x64");
    assert.equal(gemmName(halves(64), withMatrices), "tiled_32x32x32_4x4");
    assert.equal(gemmName(halves(4096, { wholeEights: false }), withMatrices), "tiled_128x128x16_16x8");
    const unaligned = { vectorA: false, vectorB: false, wholeEights: false };
    assert.equal(gemmName(halves(2047, { ...unaligned, k: 256 }), withMatrices), "matrices_128x128x32_64x64");
    assert.equal(gemmName(halves(2047, { ...unaligned, k: 255 }), withMatrices), "tiled_128x128x16_16x8");
    assert.equal(gemmName(halves(4096, { dtype: "f32" }), withMatrices), "tiled_256x128x16_16x8");
    for (const lacking of [
      { subgroupMatrices: ["8x8x8"] },
      { subgroupMinSize: 16 },
      { subgroupMaxSize: 64 },
    ] as const)
      assert.equal(gemmName(halves(4096), { ...withMatrices, ...lacking }), "tiled_128x128x16_16x8");
  });

  it("of gemm split large products of f32 into f16 where that is asked for", () => {
    const rowOf = "split_128x128x64_64x32";
    const name = (m: number, n: number, k: number, features = withSplitting) =>
      gemmName(product(m, n, k), features);
    assert.equal(name(4096, 4096, 4096), "split_128x128x64_64x32");
    assert.equal(name(4095, 4097, 4093), "split_128x128x64_64x32");
    assert.equal(name(4096, 4096, 4096, withMatrices), "packed_256x128x2x8_16x8");
    assert.equal(name(4096, 4096, 255), "tiled_256x128x16_16x8");
    assert.equal(name(4096, 4096, 511), "packed_256x128x2x8_16x8");
    assert.equal(name(511, 16384, 4096), "tiled_256x128x16_16x8");
    assert.equal(name(1024, 1024, 4096), "tiled_128x128x16_16x8", "too few tiles");
    assert.equal(gemmName(product(1024, 1024, 1024, { batch: 2 }), withSplitting), "split_128x128x64_64x32");
    for (const lacking of [
      { subgroupMatrices: ["8x8x8"] },
      { subgroupMaxSize: 64 },
      { limits: large.limits },
    ])
      assert.notInclude(name(4096, 4096, 4096, { ...withSplitting, ...lacking }), "split");
    assert.equal(selectGemm(product(1024, 1024, 65536, { batch: 2 }), withSplitting).partDepth, 65536);
    const forced = (k: number) => selectGemm(product(64, 64, k), withSplitting, rowOf).variant.name === rowOf;
    assert.deepEqual([15, 16].map(forced), [false, true]);
  });

  it("of gemm split long sums only where there are few results", () => {
    const parts = (shape: GemmShape, features = portable) =>
      Math.ceil(shape.k / selectGemm(shape, features).partDepth);
    assert.equal(parts(product(4096, 4096, 65536)), 1);
    assert.equal(parts(product(128, 128, 767)), 1);
    assert.equal(parts(product(128, 128, 768)), 6);
    assert.equal(parts(product(1, 128, 767)), 1);
    assert.isAbove(parts(product(128, 128, 65536)), 8);
    assert.equal(parts(product(128, 128, 65536), emulated), 1);
    assert.equal(selectGemm(product(128, 128, 65536), portable).partDepth % 32, 0);
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
    assert.equal(name(attending(2048, 2048, { matrices: 8 })), "tiled_128x128");
    assert.equal(name(attending(2048, 2048, { matrices: 7 })), "tiled_64x128");
    assert.equal(name(attending(2048, 2048, { matrices: 8 }), portable), "tiled_64x128");
    assert.equal(name(attending(2048, 2048, { matrices: 8 }), emulated), "tiled_16x32");
    assert.equal(name(attending(17, 2048), roomyEmulated), "tiled_32x32x32");
    assert.equal(name(attending(16, 2048, { wholeEights: true }), roomyEmulated), "tiled_16x32x32");
    assert.equal(name(attending(2048, 2048), slowlyCompiled), "tiled_16x32x32");
    assert.equal(name(attending(8, 256, { wholeEights: true })), "thin_4");
    assert.equal(name(attending(8, 255, { wholeEights: true })), "tiled_16x32");
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
    assert.equal(name(halves(2048, { headSize: 72, matrices: 5 })), "matrices_128x32_8_s");
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
      [{ unary: "direct_8x16" } as object, "variants", /unary.*gemm, conv2d, attention/],
    ] as const)
      for (const make of [
        () => webgpu({ variants }),
        () => new WebGpuDriver(async () => undefined, { variants }),
      ])
        expect(make).to.throw(BackendError, allowed).that.includes({ code: "INVALID_ARGUMENT", argument });
  });
});
