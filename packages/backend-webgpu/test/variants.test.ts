import { variantNames, WebGpuDriver, webgpu } from "@backplane/backend-webgpu";
import { BackendError } from "@backplane/core";
import { assert, expect } from "chai";
import type { DeviceFeatures } from "#src/context.js";
import { type AttentionShape, attentionVariants, selectAttention } from "#src/kernels/attention/index.js";
import { type ConvShape, convVariants, selectConv } from "#src/kernels/conv2d/index.js";
import { type GemmShape, gemmVariants, selectGemm } from "#src/kernels/gemm/index.js";

/** The least that WebGPU guarantees. */
const portable: DeviceFeatures = {
  ...{ shaderF16: false, subgroups: false, subgroupMinSize: 0, subgroupMaxSize: 0, subgroupMatrices: [] },
  limits: {
    maxComputeWorkgroupStorageSize: 16384,
    maxComputeInvocationsPerWorkgroup: 256,
    maxComputeWorkgroupSizeX: 256,
    maxComputeWorkgroupSizeY: 256,
    maxComputeWorkgroupsPerDimension: 65535,
    maxStorageBufferBindingSize: 2 ** 27,
  },
};
const emulated: DeviceFeatures = { ...portable, subgroupMinSize: 4, subgroupMaxSize: 4 };
const tiny: DeviceFeatures = {
  ...portable,
  limits: { ...portable.limits, maxComputeInvocationsPerWorkgroup: 64, maxComputeWorkgroupStorageSize: 5000 },
};

const product = (m: number, n: number, k: number, more: Partial<GemmShape> = {}): GemmShape => ({
  ...{ dtype: "f32", m, n, k, batch: 1, transA: false, transB: false, vectorA: false, vectorB: false },
  ...more,
});
const gemmName = (shape: GemmShape, features = portable) => selectGemm(shape, features).variant.name;

const convolution = (groupOutputs: number, pixels: number, more: Partial<ConvShape> = {}): ConvShape => ({
  ...{ dtype: "f32", batch: 1, groups: 1, groupOutputs, taps: 27, pixels, pointwise: false },
  ...more,
});
const convName = (shape: ConvShape) => selectConv(shape, portable).name;

const attending = (rows: number, keyLength: number, more: Partial<AttentionShape> = {}): AttentionShape => ({
  ...{ dtype: "f32", matrices: 1, rows, keyLength, headSize: 64 },
  ...more,
});

describe("webgpu variants", () => {
  it("have names of their own and run on the least that WebGPU guarantees", () => {
    for (const table of [gemmVariants, convVariants, attentionVariants]) {
      assert.lengthOf(new Set(table.map(({ name }) => name)), table.length);
      for (const variant of table) assert.isTrue(variant.requires(portable), variant.name);
    }
  });

  it("of gemm are chosen by shape and device", () => {
    assert.equal(gemmName(product(4096, 4096, 4096)), "tiled_64x64x16_8x8");
    assert.equal(gemmName(product(704, 768, 8)), "tiled_64x64x16_8x8");
    assert.equal(gemmName(product(704, 704, 8)), "tiled_32x32x16_4x4");
    assert.equal(gemmName(product(5, 5, 5)), "tiled_32x32x16_4x4");
    assert.equal(gemmName(product(4, 4096, 64)), "thin_b_places_16x16");
    assert.equal(gemmName(product(1, 4096, 64, { transB: true })), "thin_b_k_4x64");
    assert.equal(gemmName(product(4096, 1, 64)), "thin_a_k_4x64");
    assert.equal(gemmName(product(4096, 4, 64, { transA: true })), "thin_a_places_16x16");
    assert.equal(gemmName(product(64, 32, 64), emulated), "direct_8x16");
    assert.equal(gemmName(product(64, 33, 64), emulated), "direct_8x64");
    assert.equal(gemmName(product(4096, 4096, 4096), tiny), "tiled_32x32x16_4x4");
  });

  it("of gemm split long sums only where there are few results", () => {
    const parts = (shape: GemmShape, features = portable) =>
      Math.ceil(shape.k / selectGemm(shape, features).partDepth);
    assert.equal(parts(product(4096, 4096, 65536)), 1);
    assert.equal(parts(product(128, 128, 500)), 1);
    assert.isAbove(parts(product(128, 128, 65536)), 8);
    assert.equal(parts(product(128, 128, 65536), emulated), 1);
    assert.equal(selectGemm(product(128, 128, 65536), portable).partDepth % 32, 0);
  });

  it("of conv2d are chosen by shape", () => {
    assert.equal(convName(convolution(64, 56 * 56, { pointwise: true })), "gemm");
    assert.equal(convName(convolution(64, 132 * 64)), "implicit_64x64x16_8x8");
    assert.equal(convName(convolution(64, 131 * 64)), "implicit_32x32x16_4x4");
    assert.equal(convName(convolution(32, 1e6)), "implicit_32x32x16_4x4");
    assert.equal(convName(convolution(8, 1e6)), "implicit_32x32x16_4x4");
    assert.equal(convName(convolution(7, 1e6)), "direct_4x128");
    assert.equal(convName(convolution(1, 1e6, { groups: 64 })), "direct_1x64");
    assert.equal(convName(convolution(64, 1e6, { taps: 0 })), "direct_4x128");
  });

  it("of attention are chosen by shape, and split long rows of keys of few queries", () => {
    const choose = (shape: AttentionShape, features = portable) => selectAttention(shape, features);
    assert.equal(choose(attending(16, 100)).variant.name, "tiled_16x32");
    assert.equal(choose(attending(17, 100)).variant.name, "tiled_64x32");
    assert.equal(choose(attending(1, 100)).partKeys, 100);
    assert.isBelow(choose(attending(1, 16384)).partKeys, 16384 / 32);
    assert.equal(choose(attending(1, 16384), emulated).partKeys, 16384);
    assert.equal(choose(attending(1, 16384, { matrices: 200 })).partKeys, 16384);
    assert.deepEqual(
      [1, 32, 33, 64, 65, 128, 129].map((headSize) => choose(attending(1, 1, { headSize })).columns),
      [32, 32, 64, 64, 128, 128, 128],
    );
  });

  it("can be forced by name where they fit and are possible", () => {
    const shape = product(64, 64, 64);
    for (const { name, fits } of gemmVariants)
      assert.equal(selectGemm(shape, portable, name).variant.name === name, fits(shape), name);
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
