import { assert } from "chai";
import { type GemmShape, gemmVariants, selectGemm } from "#src/kernels/gemm/index.js";
import type { MatrixTile } from "#src/kernels/gemm/matrix-tile.js";
import type { AlignedShape } from "#src/kernels/gemm/shape.js";
import { turnedOperand } from "#src/kernels/gemm/turned.js";
import { portable } from "./support.js";
import {
  emulated,
  large,
  product,
  roomyEmulated,
  tiny,
  withMatrices,
  withSplitting,
} from "./variant-cases.js";

const gemmName = (shape: GemmShape, features = portable) => selectGemm(shape, features).variant.name;

describe("webgpu variants of gemm", () => {
  it("are chosen by shape and device", () => {
    assert.equal(gemmName(product(4096, 4096, 255)), "tiled_64x64x16_8x8");
    assert.equal(gemmName(product(704, 704, 16)), "tiled_32x32x16_4x4");
    assert.equal(gemmName(product(704, 704, 17)), "tiled_32x32x32_4x4");
    assert.equal(gemmName(product(512, 512, 767)), "tiled_32x32x32_4x4");
    assert.equal(gemmName(product(512, 512, 768)), "tiled_64x64x16_8x8");
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
    const rowsOfQuads = { vectorB: true };
    assert.equal(gemmName(product(16, 8192, 64, rowsOfQuads)), "thin_b_places_32x4");
    assert.equal(gemmName(product(16, 512, 1024, rowsOfQuads)), "thin_b_places_32x4", "in parts");
    assert.equal(gemmName(product(16, 4096, 64, rowsOfQuads)), "tiled_32x32x32_4x4", "few and short");
    assert.equal(gemmName(product(4, 512, 64, rowsOfQuads)), "thin_b_places_16x16");
    for (const [m, n, k, batch, expected] of [
      [64, 64, 64, 792, "tiled_64x64x8_16x8"],
      [33, 64, 128, 792, "tiled_64x64x8_16x8"],
      [64, 64, 64, 791, "tiled_64x64x16_8x8"],
      [64, 65, 64, 792, "tiled_64x64x16_8x8"],
      [64, 64, 129, 792, "tiled_64x64x16_8x8"],
      [32, 64, 64, 792, "tiled_32x32x32_4x4"],
      [32, 32, 32, 791, "tiled_32x32x32_4x4"],
      [32, 32, 32, 792, "tiled_32x32x16_8x4"],
      [9, 16, 40, 792, "tiled_32x32x16_8x4"],
      [8, 16, 40, 792, "thin_b_places_32x4"],
      [16, 33, 40, 792, "thin_b_places_32x4"],
      [32, 127, 32, 4096, "tiled_32x32x32_4x4"],
      [32, 128, 32, 4096, "streamed_32x512x32_16x8"],
    ] as const)
      assert.equal(gemmName(product(m, n, k, { batch, vectorB: true })), expected);
    const many = product(64, 64, 64, { batch: 1024 });
    const wideSubgroups = { ...portable, subgroupMinSize: 64 };
    assert.equal(gemmName(many, wideSubgroups), "tiled_64x64x16_8x8");
    assert.equal(gemmName({ ...many, m: 32, n: 32 }, wideSubgroups), "tiled_32x32x16_4x4");
    const rowsOfB = { transB: true, vectorA: true, vectorB: true };
    assert.equal(gemmName(product(16, 4096, 4096, rowsOfB)), "thin_b_k_8x16");
    assert.equal(gemmName(product(4096, 16, 4096, rowsOfB)), "thin_a_k_8x16");
    assert.equal(gemmName(product(17, 4096, 64)), "tiled_32x128x16_8x8");
    assert.equal(gemmName(product(1, 4096, 64, { transB: true })), "thin_b_k_4x32");
    assert.equal(gemmName(product(1, 4096, 64, rowsOfB)), "row_4x256");
    assert.equal(gemmName(product(2, 4096, 64, rowsOfB)), "thin_b_k_4x32");
    assert.equal(gemmName(product(1, 524, 65_536, rowsOfB)), "thin_b_k_4x32", "few workgroups, long rows");
    assert.equal(gemmName(product(1, 525, 65_536, rowsOfB)), "row_4x256");
    assert.equal(gemmName(product(1, 8, 8192, rowsOfB)), "row_4x256");
    const halves = { ...rowsOfB, dtype: "f16" } as const;
    assert.equal(gemmName(product(1, 4096, 64, { ...halves, wholeEights: true })), "row_4x256");
    assert.equal(gemmName(product(1, 4096, 64, halves)), "thin_b_k_4x32");
    assert.equal(gemmName(product(1, 4096, 64, rowsOfB), emulated), "direct_1x64");
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

  it("are the tiles whose rounds of workgroups are expected to take least", () => {
    const name = (m: number, n: number, k: number, more: Partial<GemmShape> = {}, features = large) =>
      gemmName(product(m, n, k, { vectorA: true, vectorB: true, ...more }), features);
    for (const [m, n, expected] of [
      // One round of 132, which is also one of 264 of half the size; a workgroup more; two rounds.
      [256 * 66, 256, "tiled_256x128x16_16x8"],
      [256 * 66 + 1, 256, "tiled_64x64x16_8x8"],
      [256 * 66, 512, "tiled_256x128x16_16x8"],
      // One of 264, where tiles of twice the size make 136; a workgroup more.
      [128 * 33, 1024, "tiled_128x128x16_16x8"],
      [128 * 33 + 1, 1024, "tiled_64x64x16_8x8"],
      // One of 264, while all larger tiles leave most of theirs empty.
      [1024, 1024, "tiled_64x64x16_8x8"],
      [704, 704, "tiled_32x32x32_4x4"],
    ] as const)
      assert.equal(name(m, n, 255), expected, `${m} x ${n}`);
    for (const awkward of [
      { transB: true },
      { dtype: "f16" },
      { vectorA: false },
      { vectorB: false },
    ] as const)
      assert.equal(name(256 * 66, 256, 255, awkward), "tiled_128x128x16_16x8");
    assert.equal(name(256 * 66, 256, 255, {}, portable), "tiled_64x64x16_8x8", "too little memory");
    // Parts of long sums make rounds, too: four of 64 tiles.
    assert.equal(name(1024, 1024, 1024), "tiled_128x128x16_16x8");
  });

  it("are packed where that is a small part of the work, and there is room for copies", () => {
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
    assert.isTrue(isPacked(2304, 2304, 283));
    assert.isFalse(isPacked(2304, 2304, 282), "little to compute");
    assert.isTrue(isPacked(6000, 1000, 1000));
    assert.isFalse(isPacked(1536, 1536, 1536), "parts of sums fill rounds as well");
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
    assert.isFalse(isPacked(512, 512, 512, { batch: 64 }), "copies would be a large part");
    assert.isTrue(isPacked(1024, 1024, 1024, { batch: 16, transB: true }));
    assert.isFalse(isPacked(768, 768, 1024, { batch: 16, transB: true }), "two of them would");
    const wide = { ...large, limits: { ...large.limits, maxStorageBufferBindingSize: 2 ** 31 - 4 } };
    assert.isFalse(isPacked(8192, 8192, 8192), "a copy would not fit a binding");
    assert.isTrue(isPacked(8192, 8192, 8192, { transB: true }, wide));
    assert.isFalse(isPacked(8193, 8192, 8192, { transB: true }, wide), "more than is kept for the next call");
    assert.isTrue(isPacked(8193, 8192, 8192, {}, wide));
    assert.isFalse(isPacked(8192, 8192, 8192, { dtype: "f16" }, wide), "the sums, too");
    assert.isTrue(isPacked(8192, 8192, 2048, { dtype: "f16" }, wide));
    assert.isFalse(isPacked(4096, 4096, 4096, {}, roomyEmulated));
  });

  it("take matrix units for f16 where they are, subgroups have one size, and all is aligned or copies pay", () => {
    const halves = (m: number, more: Partial<GemmShape> = {}) =>
      product(m, m, 64, { dtype: "f16", vectorA: true, vectorB: true, wholeEights: true, ...more });
    assert.equal(gemmName(halves(4096), withMatrices), "matrices_128x256x32_64x64");
    assert.equal(gemmName({ ...halves(2048), n: 8448 }, withMatrices), "matrices_128x256x32_64x64");
    // Two rounds of the taller tile instead of three, four instead of five.
    assert.equal(gemmName({ ...halves(2048), n: 4224 }, withMatrices), "matrices_256x128x32_64x64");
    const odd = { n: 4097, k: 4093, vectorA: false, vectorB: false, wholeEights: false };
    assert.equal(gemmName(halves(4095, odd), withMatrices), "matrices_256x128x32_64x64");
    for (const transposed of [{ transA: true }, { transB: true }])
      assert.equal(gemmName(halves(4096, transposed), withMatrices), "matrices_256x128x32_64x64");
    assert.equal(gemmName(halves(2048), withMatrices), "matrices_128x256x32_64x64", "one round");
    assert.equal(gemmName({ ...halves(2048), transB: true }, withMatrices), "matrices_256x128x32_64x64");
    assert.equal(gemmName({ ...halves(2048), n: 1968 }, withMatrices), "matrices_128x256x32_64x64");
    for (const [m, n, batch] of [
      [2048, 1792, 1],
      [2048, 1920, 1],
      [1920, 2048, 1],
      [128, 128, 263],
    ] as const)
      assert.equal(
        gemmName({ ...halves(2048), m, n, batch }, withMatrices),
        "matrices_128x128x32_64x64",
        `${batch} of ${m} x ${n}: less than a round, or tiles that are not full`,
      );
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

  it("have the operand turned that a tile reads most of, if it lies along k and that pays or it is copied anyway", () => {
    const [wide, tall, other] = ["matrices_128x256", "matrices_256x128", "matrices_128x128"].map((name) => {
      const variant = gemmVariants.find((row) => row.name.startsWith(name));
      return variant?.kind === "matrices" ? variant.tile : assert.fail(name);
    });
    let mayBeCut = false;
    const turned = (tile: MatrixTile, m: number, n: number, k: number, more: Partial<AlignedShape> = {}) =>
      turnedOperand(
        { ...product(m, n, k), dtype: "f16", vectorC: true, eightsA: true, eightsB: true, ...more },
        ...([tile, 2 ** 26, mayBeCut] as const),
      );
    assert.equal(turned(wide!, 4096, 4096, 4096), undefined);
    assert.equal(turned(wide!, 4096, 4096, 4096, { transB: true }), "b");
    assert.equal(turned(wide!, 4096, 4096, 4096, { transA: true }), undefined);
    assert.equal(turned(tall!, 4096, 4096, 4096), "a");
    assert.equal(turned(tall!, 4096, 4096, 4096, { transA: true, transB: true }), undefined);
    assert.equal(turned(other!, 4096, 4096, 4096, { transB: true }), undefined);
    // As much is saved for each of its elements as it meets of the other operand.
    assert.equal(turned(tall!, 65_536, 1024, 4096), undefined);
    assert.equal(turned(wide!, 65_536, 1024, 4096, { transB: true }), "b");
    assert.equal(turned(tall!, 4096, 4096, 256), undefined, "little to compute");
    assert.equal(turned(tall!, 16_384, 4096, 4096), undefined, "too large a copy");
    mayBeCut = true;
    assert.equal(turned(tall!, 16_384, 4096, 4096), "a", "in pieces");
    assert.equal(turned(tall!, 4096, 4096, 2 ** 17), "a", "one tile at a time");
    assert.equal(turned(tall!, 4096, 4096, 2 ** 17 + 8), undefined, "less than a tile");
    assert.equal(turned(tall!, 300, 300, 300, { eightsA: false }), "a");
    assert.equal(turned(tall!, 300, 300, 300, { eightsB: false }), undefined);
    assert.equal(turned(wide!, 300, 300, 300, { transB: true, eightsB: false }), "b");

    const name = (m: number, n: number) =>
      gemmName(product(m, n, 4096, { dtype: "f16", transB: true, wholeEights: true }), withMatrices);
    assert.equal(name(16_384, 2112), "matrices_128x256x32_64x64", "B is turned, the smaller one");
    assert.equal(name(2112, 16_384), "matrices_256x128x32_64x64", "A is");
  });

  it("split large products of f32 into f16 where that is asked for", () => {
    const rowOf = "split_128x128x64_64x32";
    const name = (m: number, n: number, k: number, features = withSplitting) =>
      gemmName(product(m, n, k), features);
    assert.equal(name(4096, 4096, 4096), "split_128x128x64_64x32");
    assert.equal(name(4095, 4097, 4093), "split_128x128x64_64x32");
    assert.equal(name(4096, 4096, 4096, withMatrices), "packed_256x128x2x8_16x8");
    assert.equal(name(4096, 4096, 255), "tiled_128x128x16_16x8");
    assert.equal(name(4096, 4096, 511), "packed_256x128x2x8_16x8");
    assert.equal(name(511, 16384, 4096), "tiled_128x128x16_16x8");
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

  it("split long sums only where there are few results", () => {
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
});
