import { type DType, decodeFloat16, encodeFloat16, float16FromBits, float16ToBits } from "@backplane/core";
import { expect } from "chai";
import { detectFeatures } from "#src/features.js";
import { gemmOperation } from "#src/kernels/gemm/gemm.js";
import { fittingGemmVariants, gemmVariants } from "#src/kernels/gemm/variants.js";
import { Workbench } from "./workbench.js";

interface Shape {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly batch?: number;
  readonly transA?: boolean;
  readonly transB?: boolean;
  readonly alpha?: number;
  readonly beta?: number;
  /** Elements that rows are longer than they need to be. */
  readonly pad?: number;
  readonly strideA?: number;
  readonly strideB?: number;
  /** C side by side in the rows of one matrix. */
  readonly sideBySide?: boolean;
  readonly dtype?: DType;
}

const hostile: readonly Shape[] = [
  { m: 1, n: 1, k: 1 },
  { m: 1, n: 1, k: 1000, transA: true },
  { m: 2, n: 3, k: 4, pad: 3, alpha: -0.5, beta: 2 },
  { m: 6, n: 8, k: 5 },
  { m: 7, n: 9, k: 257, beta: 1 },
  { m: 5, n: 17, k: 256, transB: true, alpha: 3, pad: 1 },
  { m: 13, n: 31, k: 511, transA: true, transB: true, beta: -1, pad: 5 },
  { m: 1, n: 300, k: 300 },
  { m: 1, n: 300, k: 300, transB: true, beta: 0.5 },
  { m: 300, n: 1, k: 300, transA: true },
  { m: 300, n: 1, k: 300, pad: 1 },
  { m: 4, n: 1000, k: 64, transA: true },
  { m: 3, n: 1100, k: 67, pad: 3, beta: 0.5, alpha: 2 },
  { m: 8, n: 1100, k: 67, transB: true, pad: 1, beta: -1 },
  { m: 1, n: 1100, k: 67, transB: true, pad: 1, beta: -1 },
  { m: 1, n: 1100, k: 67, pad: 1, batch: 2 },
  { m: 2, n: 19, k: 3, transB: true, batch: 3, pad: 1 },
  { m: 2, n: 90, k: 31, transA: true, transB: true },
  { m: 1, n: 61, k: 600, batch: 4, strideB: 0, pad: 2 },
  { m: 70, n: 1, k: 50, batch: 3, strideA: 0 },
  { m: 63, n: 65, k: 127, transA: true, pad: 2 },
  { m: 5, n: 1031, k: 75, alpha: 2, beta: 0.5, pad: 1 },
  { m: 10, n: 300, k: 515, pad: 3, alpha: -1.5, beta: 0.5 },
  { m: 22, n: 260, k: 300, transA: true, transB: true, beta: 1, pad: 1 },
  { m: 32, n: 139, k: 71, transB: true, batch: 3, pad: 5 },
  { m: 31, n: 530, k: 22, beta: 2, pad: 1 },
  { m: 37, n: 139, k: 270, batch: 3, pad: 5, alpha: 0.5 },
  { m: 121, n: 129, k: 130, pad: 7, alpha: 1.25, beta: 0.75 },
  { m: 250, n: 70, k: 300, transB: true },
  { m: 2100, n: 20, k: 9, pad: 1 },
  { m: 20, n: 2100, k: 9, transA: true, beta: 1 },
  { m: 33, n: 2, k: 0, beta: 0.5, pad: 1 },
  { m: 33, n: 5, k: 0, beta: 0, pad: 1 },
  { m: 9, n: 10, k: 11, batch: 5, pad: 1 },
  { m: 9, n: 10, k: 11, batch: 7, strideB: 0, transB: true },
  { m: 9, n: 10, k: 11, batch: 3, strideA: 0, beta: 2 },
  { m: 12, n: 10, k: 300, batch: 4, sideBySide: true, pad: 3 },
  { m: 40, n: 50, k: 60, batch: 6, strideB: 0 },
  { m: 100, n: 90, k: 270, batch: 3, strideA: 0, strideB: 0, transA: true },
  { m: 3, n: 4, k: 2, batch: 500 },
];

/** Reproducible numbers in [-1, 1). */
function numbers(count: number, seed: number): Float32Array {
  let state = (seed * 2654435761) >>> 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

interface Case {
  readonly shape: Required<Shape>;
  readonly lda: number;
  readonly ldb: number;
  readonly ldc: number;
  readonly strideC: number;
  readonly a: Float32Array;
  readonly b: Float32Array;
  readonly c: Float32Array;
  isElement(index: number): boolean;
}

/** Operands with NaN in all gaps of A and B, and a mark in all gaps of C. */
function makeCase(given: Shape): Case {
  const pad = given.pad ?? 0;
  const transA = given.transA ?? false;
  const transB = given.transB ?? false;
  const { m, n, k } = given;
  const batch = given.batch ?? 1;
  const lda = (transA ? m : k) + pad;
  const ldb = (transB ? k : n) + pad;
  const ldc = given.sideBySide ? batch * (n + pad) : n + pad;
  const strideA = given.strideA ?? (transA ? k : m) * lda + pad;
  const strideB = given.strideB ?? (transB ? n : k) * ldb + pad;
  const strideC = given.sideBySide ? n + pad : m * ldc + pad;
  const shape: Required<Shape> = {
    ...{ alpha: 1, beta: 0, sideBySide: false, dtype: "f32" as const, ...given },
    ...{ batch, transA, transB, pad, strideA, strideB },
  };
  const operand = (rows: number, columns: number, ld: number, stride: number, seed: number) => {
    const extent = rows === 0 || columns === 0 ? 0 : (batch - 1) * stride + (rows - 1) * ld + columns;
    const array = new Float32Array(extent).fill(Number.NaN);
    const values = numbers(extent, seed);
    const used = new Set<number>();
    for (let i = 0; i < (extent === 0 ? 0 : batch); i++)
      for (let r = 0; r < rows; r++)
        for (let q = 0; q < columns; q++) {
          const at = i * stride + r * ld + q;
          used.add(at);
          array[at] = shape.dtype === "f16" ? float16FromBits(float16ToBits(values[at]!)) : values[at]!;
        }
    return { array, used };
  };
  const a = operand(transA ? k : m, transA ? m : k, lda, strideA, 1);
  const b = operand(transB ? n : k, transB ? k : n, ldb, strideB, 2);
  const c = operand(m, n, ldc, strideC, 3);
  // beta = 0 must not read C: then it holds NaN, which would leak.
  if (shape.beta === 0) for (const at of c.used) c.array[at] = Number.NaN;
  for (let at = 0; at < c.array.length; at++) if (!c.used.has(at)) c.array[at] = 777;
  return {
    ...{ shape, lda, ldb, ldc, strideC, a: a.array, b: b.array, c: c.array },
    isElement: (index) => c.used.has(index),
  };
}

/** Runs a case on a workbench; answers the whole of C, gaps included. */
function compute(bench: Workbench, variant: string | undefined, given: Case): Float32Array {
  const { shape, lda, ldb, ldc, strideC } = given;
  const half = shape.dtype === "f16";
  const upload = (array: Float32Array) => bench.upload(half ? encodeFloat16(array) : array);
  const c = upload(given.c);
  const { m, n, k, alpha, beta, transA, transB, batch, strideA, strideB, dtype } = shape;
  const plan = gemmOperation(variant).plan(
    {
      ...{ dtype, m, n, k, alpha, beta, transA, transB, lda, ldb, ldc },
      ...{ batch, strideA, strideB, strideC, a: upload(given.a), b: upload(given.b), c },
      ...{ bias: undefined, activation: undefined },
    },
    bench.context,
  );
  bench.run(plan);
  return half ? decodeFloat16(bench.uint16(c)) : bench.float32(c);
}

/**
 * Compares with double precision: |error| <= gamma_(k + 3) * (|alpha| |A| |B| + |beta| |C|), with
 * gamma_n = n u / (1 - n u), which holds for any order of summation (Higham, "Accuracy and Stability
 * of Numerical Algorithms", 2nd ed., 3.1), plus one rounding to f16 where that is stored.
 */
function check(given: Case, result: Float32Array): void {
  const { m, n, k, alpha, beta, transA, transB, batch, strideA, strideB, dtype } = given.shape;
  const u = 2 ** -24;
  const gamma = ((k + 3) * u) / (1 - (k + 3) * u);
  let checked = 0;
  for (let i = 0; i < batch; i++) {
    for (let r = 0; r < m; r++) {
      for (let q = 0; q < n; q++) {
        const at = i * given.strideC + r * given.ldc + q;
        let sum = 0;
        let magnitude = 0;
        for (let p = 0; p < k; p++) {
          const x = given.a[i * strideA + (transA ? p * given.lda + r : r * given.lda + p)]!;
          const y = given.b[i * strideB + (transB ? q * given.ldb + p : p * given.ldb + q)]!;
          sum += x * y;
          magnitude += Math.abs(x * y);
        }
        const old = beta === 0 ? 0 : beta * given.c[at]!;
        const exact = alpha * sum + old;
        const scale = Math.abs(alpha) * magnitude + Math.abs(old);
        const halfUlp =
          dtype === "f16" ? Math.max(2 ** -25, (Math.abs(exact) + gamma * scale) * 2 ** -11) : 0;
        const error = Math.abs(result[at]! - exact);
        if (!(error <= gamma * scale + halfUlp))
          expect.fail(`C[${i}, ${r}, ${q}] is ${result[at]}, not ${exact}: off by ${error}`);
        checked++;
      }
    }
  }
  for (let at = 0; at < result.length; at++)
    if (!given.isElement(at) && result[at] !== 777)
      expect.fail(`the gap at ${at} was written: ${result[at]}`);
  expect(checked).to.equal(batch * m * n);
}

const label = (shape: Shape): string => JSON.stringify(shape).replaceAll('"', "");
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
      }).timeout(60000);
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
    }).timeout(30000);
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
  }).timeout(60000);

  const run = async (shape: Shape, change?: (given: Case) => void): Promise<Float32Array> => {
    const bench = await Workbench.create(gemmOperation().kernels, { pages: 300 });
    const given = makeCase(shape);
    change?.(given);
    return compute(bench, undefined, given);
  };

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
    const bench = await Workbench.create(gemmOperation().kernels, { pages: 4 });
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
  }).timeout(30000);
});
