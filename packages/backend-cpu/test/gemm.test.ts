// Tags: kernels, pure, long
import { float16FromBits, float16ToBits, type GemmProblem } from "@backplane/core";
import { expect } from "chai";
import { detectFeatures } from "#src/features.js";
import { directTypes } from "#src/kernels/gemm/direct.wasm.js";
import { gemmOperation } from "#src/kernels/gemm/gemm.js";
import { partsOf } from "#src/kernels/gemm/parts.js";
import { fittingGemmVariants, gemmVariants } from "#src/kernels/gemm/variants.js";
import type { CpuMemory, Features } from "#src/kernels/kernel.js";
import { type Case, check, compute, hostile, label, makeCase, planCase, type Shape } from "./gemm-cases.js";
import { expectSameElements } from "./same-elements.js";
import { Workbench } from "./workbench.js";

const features = detectFeatures();

for (const { name, requires } of gemmVariants) {
  const runs = requires === undefined || features[requires];
  (runs ? describe : describe.skip)(`gemm ${name}`, () => {
    const relaxedSimd = features.relaxedSimd;
    for (const dtype of ["f32", "f16"] as const) {
      it(`is within the bound for hostile shapes in ${dtype}, and leaves gaps alone`, async () => {
        for (const shape of hostile) {
          // A bench for each: uploads are never freed.
          const bench = await Workbench.create(gemmOperation(name).kernels, { relaxedSimd, pages: 300 });
          const given = makeCase({ ...shape, dtype });
          try {
            check(given, compute(bench, name, given));
          } catch (error) {
            throw new Error(`${label(shape)}: ${String(error)}`);
          }
        }
      });
    }

    it("gives the same bits however many workers there are", async () => {
      for (const dtype of ["f32", "f16"] as const) {
        for (const shape of [
          { m: 301, n: 203, k: 517 },
          { m: 40, n: 41, k: 42, batch: 9 },
          { m: 50, n: 50, k: 300, transB: true },
          { m: 31, n: 700, k: 300, beta: 2 },
          // Strips for one and two workers, blocks for seven.
          { m: 70, n: 550, k: 517, beta: 0.5 },
          { m: 1, n: 700, k: 700 },
          { m: 3, n: 700, k: 701, transB: true },
        ]) {
          const given = makeCase({ ...shape, dtype });
          const results: Float32Array[] = [];
          for (const workers of [1, 2, 7]) {
            const options = { relaxedSimd, pages: 400, workers };
            const bench = await Workbench.create(gemmOperation(name).kernels, options);
            results.push(compute(bench, name, given));
          }
          for (const result of results.slice(1))
            expect(Buffer.from(result.buffer).equals(Buffer.from(results[0]!.buffer)), label(shape)).to.equal(
              true,
            );
        }
      }
    });
  });
}

describe("gemm", () => {
  it("gives the same bits with every variant that rounds alike", async () => {
    const [first] = fittingGemmVariants(features, undefined);
    const variants = gemmVariants.filter(({ tile }) => tile.fused === first!.tile.fused);
    expect(variants.length).to.be.greaterThan(1);
    for (const shape of [...hostile, { m: 260, n: 270, k: 600, alpha: 0.3, beta: 0.7 }]) {
      const given = makeCase(shape);
      const results: Float32Array[] = [];
      // Without a name there are products in place too.
      for (const name of [...variants.map(({ name }) => name), undefined]) {
        const options = { relaxedSimd: features.relaxedSimd, pages: 300 };
        const bench = await Workbench.create(gemmOperation(name, features).kernels, options);
        results.push(compute(bench, name, given));
      }
      for (const result of results.slice(1))
        expect(Buffer.from(result.buffer).equals(Buffer.from(results[0]!.buffer)), label(shape)).to.equal(
          true,
        );
    }
  });

  const run = async (shape: Shape, change?: (given: Case) => void): Promise<Float32Array> => {
    const bench = await Workbench.create(gemmOperation().kernels, { pages: 300 });
    const given = makeCase(shape);
    change?.(given);
    return compute(bench, undefined, given);
  };

  const region = { memory: { byteOffset: 0, byteLength: 0 }, byteOffset: 0, byteLength: 0 };
  const context = { features: { relaxedSimd: true }, workers: 1, workspace: () => 0, late: () => {} };
  const pixels = (m: number, n: number, k: number): GemmProblem<CpuMemory> => ({
    ...{ dtype: "f32", m, n, k, batch: 1, alpha: 1, beta: 0, transA: false, transB: false },
    ...{ lda: k, ldb: n, ldc: n + 1, strideA: 0, strideB: 0, strideC: 0, a: region, b: region, c: region },
    ...{ bias: undefined, activation: undefined },
  });

  it("takes the variant that is forced, or has more columns, for a small B too", () => {
    const kernel = (forced: string | undefined, chosen?: string, features: Features = context.features) =>
      gemmOperation(forced).plan(pixels(60, 40, 30), {
        ...{ ...context, features },
        ...(chosen === undefined ? {} : { variants: { gemm: chosen } }),
      })[0]!.kernel;
    expect(kernel(undefined)).to.equal("gemm_direct_f32");
    expect(kernel(undefined, "6x8_fma")).to.equal("gemm_direct_f32");
    expect(kernel("blas", "6x8_fma")).to.equal("gemm_direct_f32");
    expect(kernel(undefined, "4x8", { relaxedSimd: false })).to.equal("gemm_direct_f32");
    for (const { name } of gemmVariants) expect(kernel(name)).to.equal(`gemm_small_f32_${name}`);
    expect(kernel(undefined, "6x16_fma")).to.equal("gemm_small_f32_6x16_fma");
  });

  it("divides rows evenly for a small B, and knows that thin products take long", () => {
    const launch = (problem: GemmProblem<CpuMemory>, workers: number, fewRegisters = false) => {
      const features = { relaxedSimd: true, fewRegisters };
      const [first] = gemmOperation().plan(problem, { ...context, features, workers });
      const at = (name: string) => first!.words[Object.keys(directTypes).indexOf(name)];
      return { ...first!, chunkRows: at("chunkRows"), rowChunks: at("rowChunks") };
    };
    for (const [m, workers, fewRegisters, chunkRows, rowChunks] of [
      [250, 2, true, 128, 2],
      [250, 2, false, 126, 2],
      [400, 2, true, 100, 4],
      [290, 4, true, 76, 4],
      [3136, 4, false, 396, 8],
      [3136, 1, false, 3138, 1],
    ] as const) {
      const plan = launch(pixels(m, 64, 64), workers, fewRegisters);
      expect(plan).to.include({ kernel: "gemm_direct_f32", chunkRows, rowChunks, chunks: rowChunks });
    }
    // One product for each element: storing them takes longer. On no machine are they as fast as products of panels.
    const thin = launch(pixels(50_000, 1, 1), 2);
    expect(thin).to.include({ kernel: "gemm_direct_f32", chunks: 4 });
    expect(thin.nanoseconds).to.be.within(100_000, 1_000_000);
  });

  it("gives the same bits for a small B stored by columns, however many workers there are", async () => {
    // For one worker in place, and rows too few for several.
    for (const shape of [
      { m: 32, n: 104, k: 314, transB: true },
      { m: 20, n: 100, k: 300, transB: true, batch: 2 },
    ]) {
      const given = makeCase(shape);
      const results: Float32Array[] = [];
      for (const workers of [1, 2, 7]) {
        const bench = await Workbench.create(gemmOperation().kernels, { pages: 100, workers });
        results.push(compute(bench, undefined, given));
      }
      check(given, results[0]!);
      for (const result of results.slice(1)) expectSameElements(result, results[0]!, label(shape));
    }
  });

  it("divides k of a large matrix times a few rows, alike for any number of workers", async () => {
    const cases: readonly [parts: number, Shape][] = [
      [8, { m: 1, n: 300, k: 4100, alpha: 0.5, beta: 2, pad: 3 }],
      [8, { m: 3, n: 519, k: 3101, transA: true }],
      [8, { m: 1, n: 300, k: 8203, dtype: "f16" }],
      // Four rows of B at a time in place of six from 2^23 elements on.
      [8, { m: 1, n: 2047, k: 4097 }],
      [8, { m: 1, n: 2047, k: 4101 }],
      [2, { m: 4, n: 517, k: 519 }],
      // Of many rows there are parts only if B is large, and fewer.
      [5, { m: 24, n: 1100, k: 2001 }],
      [1, { m: 12, n: 1100, k: 1001 }],
      [2, { m: 32, n: 2100, k: 1030 }],
      // Too few rows of B to be divided: in shares of k all the same.
      [1, { m: 31, n: 4100, k: 600 }],
      // More sums than one chunk has.
      [1, { m: 2, n: 70_000, k: 30 }],
      [1, { m: 1, n: 300, k: 4100, transB: true }],
    ];
    for (const [parts, shape] of cases) {
      const given = makeCase(shape);
      const results: Float32Array[] = [];
      for (const workers of [1, 2, 7]) {
        const bench = await Workbench.create(gemmOperation().kernels, { pages: 600, workers });
        results.push(compute(bench, undefined, given));
      }
      check(given, results[0]!);
      for (const result of results.slice(1)) expectSameElements(result, results[0]!, label(shape));
      expect(partsOf(given.shape), label(shape)).to.equal(parts);
    }
  });

  it("gives the same bits whether rows of A are read in place or packed", async () => {
    const shapes: readonly Shape[] = [
      { m: 9, n: 8, k: 1 },
      { m: 17, n: 95, k: 12 },
      { m: 700, n: 37, k: 40 },
      { m: 50, n: 21, k: 33, pad: 3 },
      { m: 300, n: 5, k: 512, transB: true },
      { m: 33, n: 30, k: 40, batch: 3, pad: 1 },
    ];
    // Tiles of six rows, and of four.
    const engines: readonly Features[] = features.relaxedSimd
      ? [features, { ...features, fewRegisters: true }]
      : [features];
    for (const shape of shapes)
      for (const [workers, engine] of [1, 3].flatMap((count) =>
        engines.map((each) => [count, each] as const),
      )) {
        const { relaxedSimd, fewRegisters = false } = engine;
        const options = { relaxedSimd, fewRegisters, pages: 100, workers };
        const bench = await Workbench.create(gemmOperation().kernels, options);
        const inPlace = makeCase(shape);
        // The same A with columns along k is packed.
        const packed = makeCase({ ...shape, transA: true });
        const { m, k } = shape;
        for (let i = 0; i < (shape.batch ?? 1); i++)
          for (let r = 0; r < m; r++)
            for (let p = 0; p < k; p++)
              packed.a[i * packed.shape.strideA + p * packed.lda + r] =
                inPlace.a[i * inPlace.shape.strideA + r * inPlace.lda + p]!;
        const { plan, result } = planCase(bench, undefined, inPlace);
        expect(plan.map(({ kernel }) => kernel)).to.deep.equal(["gemm_direct_f32"]);
        bench.run(plan);
        const one = result();
        const other = planCase(bench, undefined, packed);
        expect(other.plan.at(-1)!.kernel).to.match(/^gemm_(small|strip|multiply)_f32_/);
        bench.run(other.plan);
        check(inPlace, one);
        expectSameElements(one, other.result(), `${label(shape)}, ${workers} workers`);
      }
  });

  it("makes parts longer where there would be many", () => {
    const partsOfDepth = (k: number) => {
      const shape = { m: 1, n: 4096, k, batch: 1, transB: false };
      return partsOf(shape);
    };
    expect([200, 300, 700, 1500, 2048].map(partsOfDepth)).to.deep.equal([1, 2, 5, 8, 8]);
    expect([3000, 4096, 8192, 100_000].map(partsOfDepth)).to.deep.equal([11, 16, 32, 64]);
  });

  it("carries NaN and infinity to the elements that they belong to and to no others", async () => {
    for (const size of [10, 130]) {
      const result = await run({ m: size, n: size, k: size }, ({ a, b }) => {
        a[3 * size + 2] = Number.NaN;
        b[1 * size + 5] = Number.POSITIVE_INFINITY;
      });
      for (let r = 0; r < size; r++)
        for (let q = 0; q < size; q++) {
          const value = result[r * size + q]!;
          if (r === 3) expect(value).to.be.NaN;
          else if (q === 5) expect(Math.abs(value)).to.equal(Number.POSITIVE_INFINITY);
          else expect(Number.isFinite(value)).to.equal(true);
        }
    }
  });

  it("keeps subnormal numbers", async () => {
    const tiny = 2 ** -140;
    const result = await run({ m: 9, n: 9, k: 1 }, ({ a, b }) => {
      a.fill(tiny);
      b.fill(0.5);
    });
    expect(result.every((value) => value === tiny / 2)).to.equal(true);
  });

  it("rounds f16 results once, from an f32 sum over all of k", async () => {
    // 1 + 4000 * 2^-12: in f16 each term would be lost, and each stretch of k would be rounded.
    const k = 4001;
    const result = await run({ m: 1, n: 1, k, dtype: "f16" }, ({ a, b }) => {
      a.fill(2 ** -12);
      b.fill(1);
      a[0] = 1;
    });
    expect(result[0]).to.equal(float16FromBits(float16ToBits(1 + 4000 / 4096)));
    const large = await run({ m: 1, n: 1, k: 3, dtype: "f16" }, ({ a, b }) => {
      a.set([60000, 60000, -60000]);
      b.fill(1);
    });
    expect(large[0]).to.equal(60000);
  });

  it("does not touch what lies beyond the last row, however far the next would be", async () => {
    const bench = await Workbench.create(gemmOperation().kernels, { pages: 64 });
    const [m, k, ld] = [11, 5, 50_000];
    const extent = (m - 1) * ld + k;
    // A at the end of the memory: reading another row would be a fault.
    const b = bench.upload(new Float32Array(k * 20).fill(1));
    const c = bench.alloc(m * 20 * 4);
    const left = bench.memory.buffer.byteLength - bench.alloc(4).memory.byteOffset;
    bench.alloc(left - 4 * extent - 1024);
    const a = bench.upload(new Float32Array(extent).fill(1));
    const problem = {
      ...{ dtype: "f32" as const, m, n: 20, k, alpha: 1, beta: 0, transA: false, transB: false },
      ...{ lda: ld, ldb: 20, ldc: 20, batch: 1, strideA: 0, strideB: 0, strideC: 0, a, b, c },
      ...{ bias: undefined, activation: undefined },
    };
    bench.run(gemmOperation().plan(problem, { ...bench.context, workers: 2 }));
    expect(bench.float32(c).every((value) => value === k)).to.equal(true);
  });

  it("works with a bounded workspace", async () => {
    const bench = await Workbench.create(gemmOperation().kernels, { pages: 8 });
    let bytes = 0;
    const context = {
      ...bench.context,
      workspace(size: number) {
        bytes += size;
        return 0;
      },
    };
    const region = { memory: { byteOffset: 0, byteLength: 0 }, byteOffset: 0, byteLength: 0 };
    for (const dtype of ["f32", "f16"] as const) {
      for (const [m, n, k, batch] of [
        [16_000, 16_000, 16_000, 1],
        [1, 1_000_000, 500, 3],
        [300, 300, 300, 10_000],
        [250, 3000, 8000, 1],
        [250, 3000, 9000, 1],
        [40, 300, 300, 10_000],
      ] as const) {
        bytes = 0;
        gemmOperation().plan(
          {
            ...{
              dtype,
              m,
              n,
              k,
              batch,
              alpha: 1,
              beta: 0,
              transA: false,
              transB: false,
              lda: k,
              ldb: n,
              ldc: n,
            },
            ...{ strideA: m * k, strideB: k * n, strideC: m * n, a: region, b: region, c: region },
            ...{ bias: undefined, activation: undefined },
          },
          context,
        );
        expect(bytes).to.be.at.most(32 << 20);
      }
    }
  });
});
