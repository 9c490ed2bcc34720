// Tags: kernels, pure
import { type FloatType, floatTypes } from "@backplane/core";
import { assert } from "chai";
import { checkGemm, distinctResults, type GemmCase, transposes } from "./gemm-cases.js";
import { withProducts } from "./products.js";

const row = "packed_256x128x2x8_16x8";
const packing = /^gemm_k_major_/;

/** Of what each operand is packed from: nothing aligned, or all, but C alone nor in quads. */
const layouts: readonly Partial<GemmCase>[] = [
  { padA: 1, padB: 3, offset: 1, beta: 0.5, alpha: 2, padC: 1 },
  { multiple: 4, batch: 2, gap: 4, beta: -1 },
  { batch: 3, padA: 3, broadcastA: true, sideBySide: true, gap: 2 },
];

describe("webgpu gemm with packed operands", () => {
  const device = withProducts();

  for (const dtype of floatTypes)
    it(`is right in ${dtype} whatever lies next to what`, async () => {
      const packed = new Set<string>();
      for (const { transA, transB } of transposes)
        for (const [i, layout] of layouts.entries())
          for (const [m, n, k] of [
            [5, 135, 19],
            [132, 8, 36],
          ] as const) {
            const whole = (i + m) % 2 === 0;
            await checkGemm(device(), { dtype, m, n, k, transA, transB, whole, ...layout }, row);
            for (const name of device().programs) if (packing.test(name)) packed.add(name);
          }
      assert.deepEqual(
        [...packed].sort(),
        ["k", "k4", "lines", "lines4"].map((form) => `gemm_k_major_${dtype}_${form}`),
      );
    });

  it("takes operands as they are that need no packing", async () => {
    const packs = async (shape: Partial<GemmCase>, dtype: FloatType = "f32") => {
      await checkGemm(device(), { m: 8, n: 12, k: 32, dtype, multiple: 4, ...shape }, row);
      return device().programs.map((name) => packing.exec(name)?.[0] ?? name.slice(0, 12));
    };
    const product = "gemm_256x128";
    const pack = "gemm_k_major_";
    const combine = "gemm_combine";
    assert.deepEqual(await packs({ transA: true }), [product]);
    assert.deepEqual(await packs({}), [pack, product]);
    assert.deepEqual(await packs({ transA: true, transB: true }), [pack, product]);
    assert.deepEqual(await packs({ transA: true, offset: 1 }), [pack, pack, product, combine]);
    assert.deepEqual(await packs({ transA: true, m: 6 }), [pack, product]);
    assert.deepEqual(await packs({ transA: true, k: 24 }), [pack, pack, product]);
    assert.deepEqual(await packs({ transA: true }, "f16"), [pack, pack, product, "store_half_q"]);
    assert.deepEqual(await packs({ transA: true, beta: 2 }), [product, combine]);
    assert.deepEqual(await packs({ transA: true, alpha: 2 }), [product, combine]);
    assert.deepEqual(await packs({ transA: true, padC: 1 }), [product]);
    assert.deepEqual(await packs({ transA: true, activation: "relu" }, "f16"), [
      pack,
      pack,
      product,
      combine,
      "store_half_q",
    ]);
  });

  it("adds nothing but zeros times zeros after the end of k", async () => {
    const value = (depth: number, index: number) => (depth === 4 ? Number.POSITIVE_INFINITY : index % 3);
    const a = (row: number, depth: number) => value(depth, row * 5 + depth);
    const b = (depth: number, column: number) => value(depth, depth * 8 + column);
    const results = await distinctResults(device(), [6, 8, 5], a, b, row);
    assert.lengthOf(device().programs, 3);
    // A zero times infinity would be NaN.
    assert.deepEqual(results, [Number.POSITIVE_INFINITY]);
  });
});
