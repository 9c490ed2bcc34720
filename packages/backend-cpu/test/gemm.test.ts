// Tags: kernels, pure, long
import { float16FromBits, float16ToBits } from "@backplane/core";
import { expect } from "chai";
import { detectFeatures } from "#src/features.js";
import { gemmOperation } from "#src/kernels/gemm/gemm.js";
import { partsOf } from "#src/kernels/gemm/parts.js";
import { fittingGemmVariants, gemmVariants } from "#src/kernels/gemm/variants.js";
import { type Case, check, compute, hostile, label, makeCase, type Shape } from "./gemm-cases.js";
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
      for (const { name } of variants) {
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
      { m: 17, n: 97, k: 12 },
      { m: 50, n: 21, k: 33, pad: 3 },
      { m: 300, n: 5, k: 512, transB: true },
      { m: 33, n: 30, k: 40, batch: 3, pad: 1 },
    ];
    const { relaxedSimd } = features;
    for (const shape of shapes)
      for (const workers of [1, 3]) {
        const options = { relaxedSimd, pages: 100, workers };
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
        const [one, other] = [inPlace, packed].map((given) => compute(bench, undefined, given)) as [
          Float32Array,
          Float32Array,
        ];
        check(inPlace, one);
        expectSameElements(one, other, `${label(shape)}, ${workers} workers`);
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
