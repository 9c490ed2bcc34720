import { type DType, dtypes, type GemmProblem } from "@backplane/core";
import { assert } from "chai";
import { runGemm } from "#src/kernels/gemm/index.js";
import type { DeviceMemory } from "#src/memory.js";
import { checkGemm, type GemmCase, transposes } from "./gemm-cases.js";
import { withProducts } from "./products.js";

const row = "packed_256x128x2x8_16x8";
const packing = /^gemm_k_major_/;

/** Of what each operand is packed from: nothing aligned, or all, but C alone nor in quads. */
const layouts: readonly Partial<GemmCase>[] = [
  { padA: 1, padB: 3, offset: 1, beta: 0.5, alpha: 2, padC: 1 },
  { multiple: 4, batch: 2, gap: 4, beta: -1 },
  { batch: 3, padA: 3, broadcastA: true, sideBySide: true, gap: 2 },
];

describe("webgpu gemm with packed operands", function () {
  this.timeout(120_000);
  const device = withProducts();

  for (const dtype of dtypes)
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
    const packs = async (shape: Partial<GemmCase>, dtype: DType = "f32") => {
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
    assert.deepEqual(await packs({ transA: true }, "f16"), [pack, pack, product, "store_halves"]);
    assert.deepEqual(await packs({ transA: true, beta: 2 }), [product, combine]);
    assert.deepEqual(await packs({ transA: true, alpha: 2 }), [product, combine]);
    assert.deepEqual(await packs({ transA: true, padC: 1 }), [product]);
    assert.deepEqual(await packs({ transA: true, activation: "relu" }, "f16"), [
      pack,
      pack,
      product,
      combine,
      "store_halves",
    ]);
  });

  it("adds nothing but zeros times zeros after the end of k", async () => {
    const [m, n, k] = [6, 8, 5];
    const last = (i: number, isLast: boolean) => (isLast ? Number.POSITIVE_INFINITY : i % 3);
    const a = device().place(
      Float32Array.from({ length: m * k }, (_, i) => last(i, i % k === k - 1)),
      "f32",
    );
    const b = device().place(
      Float32Array.from({ length: k * n }, (_, i) => last(i, i >= (k - 1) * n)),
      "f32",
    );
    const c = device().place(new Float32Array(m * n), "f32");
    const problem: GemmProblem<DeviceMemory> = {
      ...{ dtype: "f32", m, n, k, alpha: 1, beta: 0, transA: false, transB: false, lda: k, ldb: n, ldc: n },
      ...{ batch: 1, strideA: m * k, strideB: k * n, strideC: m * n },
      ...{ a, b, c, bias: undefined, activation: undefined },
    };
    device().run((context) => runGemm(context, problem, row));
    assert.lengthOf(device().programs, 3);
    const results = new Float32Array((await device().bytes(c)).buffer, 0, m * n);
    // A zero times infinity would be NaN.
    assert.deepEqual([...new Set(results)], [Number.POSITIVE_INFINITY]);
    device().free(a, b, c);
  });
});
