// Tags: kernels, pure, long
import { activations, dtypeBytes, floatTypes, type GemmProblem } from "@backplane/core";
import { assert } from "chai";
import { type GemmVariant, gemmVariants, runGemm } from "#src/kernels/gemm/index.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { checkGemm, distinctResults, type GemmCase, transposes } from "./gemm-cases.js";
import { asLargeGpu, type Expected, finalRounding, gamma, signed, withProducts } from "./products.js";

/** Factors are exact in f32. */
const layouts: readonly Partial<GemmCase>[] = [
  {},
  // Nothing is aligned.
  { padA: 1, padB: 3, padC: 2, offset: 1, alpha: 0.75, beta: 1.25 },
  // All is aligned, with gaps; then all but the start, and all but the ends of rows.
  { padA: 4, padB: 8, padC: 4, offset: 8, batch: 2, gap: 4 },
  { multiple: 4, offset: 2, batch: 2 },
  { multiple: 4, padA: 1, padB: 1, padC: 1, beta: 0.5 },
  { batch: 3, padA: 1, padB: 2, broadcastA: true, sideBySide: true, gap: 1, alpha: 2, beta: -1 },
];

/** Sizes 1 to 3, primes, one less and one more than tiles and steps, and k = 1 modulo 8. */
const shapes: readonly (readonly [m: number, n: number, k: number])[] = [
  [1, 1, 1],
  [2, 3, 9],
  [3, 1, 17],
  [1, 67, 31],
  [4, 68, 36],
  [37, 2, 260],
  [31, 33, 15],
  [32, 64, 16],
  [65, 63, 33],
];

/**
 * The texts of larger tiles differ from that of the smallest by numbers only, and compile slowly on emulated
 * devices: the smallest stands for their loads and layouts, and they are tried where a tile is full and at its edges.
 */
const isLarge = ({ kind, name }: GemmVariant): boolean =>
  kind === "packed" || (kind === "tiled" && name !== "tiled_32x32x16_4x4");

const unaligned = { vectorA: false, vectorB: false, wholeEights: false };

/** All that emulated devices can run, and that unaligned operands fit. */
const portableVariants = gemmVariants.filter(
  ({ kind }) => !["matrices", "split", "streamed", "row"].includes(kind),
);

describe("webgpu gemm", () => {
  const device = withProducts();

  for (const dtype of floatTypes) {
    for (const { name, fits } of portableVariants.filter((variant) => !isLarge(variant)))
      it(`${name} is right in ${dtype} for every transpose and layout that it fits`, async () => {
        let tried = 0;
        for (const [m, n, k] of shapes)
          for (const transpose of transposes) {
            const shape = { dtype, m, n, k, batch: 1, ...transpose, ...unaligned };
            // Each form compiles anew; in f16 only the loads and stores are others than in f32.
            if (!fits(shape) || (dtype === "f16" && tried >= 12)) continue;
            const layout = layouts[(tried + Math.floor(tried / 4)) % layouts.length]!;
            tried++;
            await checkGemm(device(), { m, n, k, dtype, ...transpose, ...layout }, name);
          }
        assert.isAtLeast(tried, 4);
      });

    for (const { name } of gemmVariants.filter(({ kind }) => kind === "streamed"))
      it(`${name} is right in ${dtype} for every size, whether A is aligned, with and without an epilogue`, async () => {
        const checkOne = async (shape: GemmCase) => {
          await checkGemm(device(), { dtype, beta: 0.5, alpha: 2, ...shape }, name);
          assert.match(device().programs[0]!, new RegExp(`^gemm_${name}`));
        };
        const layouts = [{ multiple: 4 }, { padA: 1, batch: 2, gap: 4 }, { padB: 4, offset: 8 }];
        // The larger ones differ from the smallest by numbers only, and compile slowly on emulated devices.
        const isSmallest = name === "streamed_8x256x32_8x4";
        for (const [i, [m, n, k]] of (
          [
            [1, 4, 8],
            [5, 68, 31],
            [8, 256, 16],
            [9, 260, 33],
            [33, 12, 64],
          ] as const
        ).entries())
          for (const transA of isSmallest ? [false, true] : [i % 2 > 0])
            for (const layout of isSmallest ? layouts : [layouts[i % 2]!])
              await checkOne({ m, n, k, transA, ...layout });
        // What follows the sums is the same in f16 up to the store.
        for (const [i, activation] of activations
          .slice(0, dtype === "f32" && isSmallest ? activations.length : 1)
          .entries())
          await checkOne({ m: 9, n: 260, k: 33, transA: i % 2 > 0, multiple: 4, bias: true, activation });
      });

    for (const { name } of gemmVariants.filter(({ kind }) => kind === "row"))
      it(`${name} is right in ${dtype} for every number of blocks and columns, with each epilogue`, async () => {
        const aligned = { dtype, m: 1, transB: true, multiple: 8 };
        for (const shape of [
          { n: 4, k: 8 },
          { n: 68, k: 1024, beta: 0.5, alpha: 2, offset: 8, padB: 8, padC: 4 },
          { n: 12, k: 2056, batch: 3, gap: 8, beta: -1 },
          { n: 20, k: 1096, batch: 2, broadcastA: true, offset: 8 },
          { n: 36, k: 520, whole: true, beta: 2, bias: true },
          ...activations.map((activation, i) => ({ n: 8, k: 40 + 8 * i, activation, bias: i % 2 === 0 })),
        ]) {
          await checkGemm(device(), { ...aligned, ...shape }, name);
          assert.deepEqual(
            device().programs.map((program) => program.startsWith(`gemm_${name}_`)),
            [true],
          );
        }
        // Results that no quads fill; f16 has another kernel for them.
        for (const n of dtype === "f32" ? [1, 7, 66] : [])
          await checkGemm(device(), { ...aligned, n, k: 264, beta: 0.5, bias: true, multiple: 4 }, name);
      });

    for (const { name } of portableVariants.filter(isLarge))
      it(`${name} is right in ${dtype} where a tile is full, at its edges and beyond`, async () => {
        const epilogue = { bias: true, activation: "silu", beta: 0.5 } as const;
        await checkGemm(device(), { m: 132, n: 136, k: 36, dtype, ...epilogue }, name);
        await checkGemm(device(), { m: 260, n: 136, k: 36, dtype, padC: 4, alpha: 2, ...epilogue }, name);
        // Other loads; in f16 those of the smallest tile stand for these.
        if (dtype === "f16") return;
        const both = { transA: true, transB: true };
        await checkGemm(device(), { m: 257, n: 129, k: 17, dtype, ...both, padA: 1, padB: 1, padC: 1 }, name);
      });

    it(`chooses kernels that are right in ${dtype}, as on large GPUs and as on emulated ones`, async () => {
      for (const features of [asLargeGpu, undefined])
        for (const [m, n, k] of [...shapes, [5, 7, 1100], [1, 9, 2049], [700, 705, 3]] as const)
          await checkGemm(device(), { m, n, k, dtype, padC: 1, beta: 0.5 }, undefined, features);
    });

    it(`sums whole numbers exactly in ${dtype}`, async () => {
      for (const { name } of portableVariants.filter((variant) => !isLarge(variant)))
        await checkGemm(device(), { m: 4, n: 13, k: 41, dtype, whole: true, alpha: 2, beta: -3 }, name);
    });

    for (const { name, fits } of portableVariants.filter((variant) => !isLarge(variant)))
      it(`${name} applies each epilogue in ${dtype}`, async () => {
        const fitting = [...shapes, [6, 68, 36] as const].flatMap(([m, n, k]) =>
          transposes
            .map((transpose) => ({ m, n, k, ...transpose }))
            .filter((sizes) => m * n >= 4 && fits({ dtype, batch: 1, ...sizes, ...unaligned })),
        );
        for (const [i, activation] of activations.entries()) {
          const layout = layouts[i % layouts.length]!;
          const bias = i % 3 !== 2;
          const sizes = fitting[i % fitting.length]!;
          await checkGemm(device(), { dtype, ...sizes, ...layout, bias, activation }, name);
          assert.match(device().programs.join(), new RegExp(`${bias ? "_bias" : ""}_${activation}(,|$)`));
        }
        await checkGemm(device(), { m: 4, n: 12, k: 41, dtype, whole: true, bias: true, beta: -3 }, name);
        const whole = { dtype, whole: true, bias: true, activation: "relu" } as const;
        await checkGemm(device(), { m: 4, n: 12, k: 20, multiple: 4, offset: 8, ...whole }, name);
      });

    it(`applies the epilogue in ${dtype} once, where the parts of long sums are complete`, async () => {
      for (const [i, [m, n, k]] of (
        [
          [2, 5, 800],
          [6, 8, 777],
          [2, 70, 2600],
        ] as const
      ).entries()) {
        const epilogue = { bias: true, activation: activations[i + 1]! };
        await checkGemm(device(), { m, n, k, dtype, beta: 0.5, padC: i, ...epilogue }, undefined, asLargeGpu);
        const [product, combine] = device().programs;
        assert.match(combine!, new RegExp(`^gemm_combine_.*_bias_${epilogue.activation}$`));
        assert.notMatch(product!, /bias|lu/);
      }
    });

    it(`applies the epilogue in ${dtype} where k is 0`, async () => {
      for (const beta of [0, 0.5])
        for (const activation of [undefined, ...activations])
          await checkGemm(device(), {
            ...{ m: 5, n: 7, k: 0, dtype, beta, padC: 3, offset: 1, batch: 2, gap: 1, bias: true },
            ...(activation === undefined ? {} : { activation }),
          });
    });

    it(`leaves beta times C where k is 0 in ${dtype}, and zeros for beta = 0`, async () => {
      for (const beta of [0, 0.5, 1])
        for (const [m, n] of [
          [1, 1],
          [5, 7],
        ] as const)
          await checkGemm(device(), { m, n, k: 0, dtype, beta, padC: 3, offset: 1, batch: 2, gap: 1 });
    });
  }

  it("streams the rows of B where there are few rows of A, in parts", async () => {
    for (const dtype of floatTypes)
      for (const m of [7, 16]) {
        const shape = { m, n: 68, k: 12_290, batch: 3, dtype, beta: 0.5 };
        await checkGemm(device(), shape, undefined, asLargeGpu);
        assert.match(device().programs[0]!, new RegExp(`^gemm_streamed_${m > 8 ? 16 : 8}x256`));
        assert.match(device().programs[1]!, /^gemm_combine/);
      }
  });

  it("splits long sums between workgroups of large GPUs", async () => {
    for (const dtype of floatTypes) {
      await checkGemm(device(), { m: 6, n: 5, k: 777, dtype, beta: 0.5, padC: 1 }, undefined, asLargeGpu);
      assert.isTrue(device().programs.some((name) => name.includes("combine")));
    }
  });

  it("computes every form of the thin kernels, for each count of vectors that they take", async () => {
    const seen = new Set<string>();
    // Both operands have whole rows that are aligned; A alone; B alone; neither.
    const aligned = [
      { multiple: 4 },
      { padA: 4, padB: 1 },
      { padA: 1, padB: 4 },
      { padA: 1, padB: 1, offset: 1 },
    ];
    // Where something is not aligned, one of the two depths; neighbours meet the other one.
    for (const [i, vectors] of [2, 5, 16].entries())
      for (const [j, { transA, transB }] of transposes.entries())
        for (const [place, layout] of aligned.entries())
          for (const k of place < 2 ? [36, 41] : [(i + j + place) % 2 === 0 ? 41 : 36])
            for (const [m, n] of [
              [vectors, 68],
              [k === 36 ? 68 : 67, vectors],
            ] as const) {
              const shape = { m, n, k, transA, transB, beta: 0.5, ...layout };
              // With B in quads, sums as short as these go to tiles.
              const forced = m === vectors && m > 4 && !transB ? "thin_b_places_32x4" : undefined;
              await checkGemm(device(), shape, forced, asLargeGpu);
              for (const name of device().programs) seen.add(name.replace(/_f32.*/, ""));
            }
    for (const form of [
      ...["b2v_k2v", "b8v_k2v", "b8v_k2", "a8v_k2v", "b2_k2v", "a2_k2"].map((text) => `4x32_${text}`),
      ...["b16v_k4v", "b16v_k4", "a16v_k4v"].map((text) => `8x16_${text}`),
      ...["b2v_placesv", "b2_places", "a2v_placesv"].map((text) => `16x16_${text}`),
      ...["b8v_placesv", "b16_placesv", "b16_places", "a8_places", "a16v_places"].map(
        (text) => `32x4_${text}`,
      ),
    ])
      assert.include([...seen], `gemm_thin_${form}`);
  });

  it("adds up the parts of long sums, however many invocations share them", async () => {
    const lanes = [];
    for (const [m, n, k] of [
      [2, 5, 800],
      [2, 70, 2600],
      [2, 5, 12000],
    ] as const)
      for (const dtype of floatTypes) {
        await checkGemm(device(), { m, n, k, dtype, batch: 2, beta: 0.5, padC: 1 }, undefined, asLargeGpu);
        lanes.push(/gemm_combine_(\d+)_/.exec(device().programs.join())?.[1]);
      }
    assert.deepEqual(lanes, ["1", "1", "4", "4", "16", "16"]);
  });

  it("computes more matrices than workgroups fit in one dimension", async () => {
    await checkGemm(device(), { m: 1, n: 1, k: 2, batch: 66_001, beta: 1 });
  });

  it("takes operands and result from one allocation", async () => {
    for (const dtype of floatTypes) {
      const [m, n, k] = [3, 5, 7];
      const values = signed(200, dtype, 5);
      const all = device().place(values, dtype, 1);
      const size = dtypeBytes[dtype];
      const slice = (first: number, count: number) => ({
        ...{ memory: all.memory, byteOffset: all.byteOffset + first * size, byteLength: count * size },
      });
      const expected = Array.from({ length: m * n }, (_, at): Expected => {
        let value = 0;
        let magnitude = 0;
        for (let p = 0; p < k; p++) {
          const term = values[Math.floor(at / n) * k + p]! * values[100 + p * n + (at % n)]!;
          value += term;
          magnitude += Math.abs(term);
        }
        return { index: at, value, tolerance: gamma(k + 3) * magnitude + finalRounding(dtype, value) };
      });
      const c = slice(50, m * n);
      const problem: GemmProblem<DeviceMemory> = {
        ...{ dtype, m, n, k, alpha: 1, beta: 0, transA: false, transB: false, lda: k, ldb: n, ldc: n },
        ...{ batch: 1, strideA: m * k, strideB: k * n, strideC: m * n },
        ...{ a: slice(0, m * k), b: slice(100, k * n), c, bias: undefined, activation: undefined },
      };
      await device().check(c, dtype, expected, "one allocation", () =>
        device().run((context) => runGemm(context, problem)),
      );
      device().free(all);
    }
  });

  it("multiplies nothing by what the last row of B is repeated for where it streams", async () => {
    const lastOfB = (depth: number) => (depth < 12 ? 1 : Number.POSITIVE_INFINITY);
    const results = await distinctResults(device(), [8, 4, 13], () => 1, lastOfB, "streamed_8x256x32_8x4");
    assert.match(device().programs.join(), /^gemm_streamed/);
    // A zero times infinity would be NaN.
    assert.deepEqual(results, [Number.POSITIVE_INFINITY]);
  });
});
