// Tags: kernels, pure
import type { FloatType } from "@backplane/core";
import { assert } from "chai";
import {
  matrixParts,
  mostSums,
  quantizedMatrixBytes,
  quantizedMatrixTile,
  quantizedMatrixTiles,
} from "#src/kernels/quantized-gemm/matrix-tile.js";
import { type Problem, runQuantizedGemm } from "#src/kernels/quantized-gemm/quantized-gemm.js";
import { withMatrixUnits, withoutMatrixUnits } from "./emulated-matrices.js";
import { withProducts } from "./products.js";
import { wholeProduct } from "./quantized.js";
import { encode, portable } from "./support.js";

interface MatrixCall {
  readonly extents: readonly [m: number, n: number, k: number];
  readonly bits?: 4 | 8;
  readonly block?: 32 | 64 | 128;
  readonly scaleType?: FloatType;
  readonly zeroPoints?: boolean;
  readonly beta?: number;
  readonly bias?: boolean;
  /** Elements in front of A and C, and bytes in front of B. */
  readonly before?: number;
  readonly parts?: number;
}

describe("webgpu quantizedGemm on matrix units", () => {
  const device = withProducts();
  before(() => {
    device().instead = withoutMatrixUnits;
  });

  /** Whole numbers, of which f16 holds every weight exactly, with infinite scales for what lies past k. */
  async function check(call: MatrixCall): Promise<void> {
    const { bits = 4, block = 32, scaleType = "f32", zeroPoints = false, beta = 0, bias = false } = call;
    const { extents, before = 0, parts } = call;
    const [m, n, k] = extents;
    const drawn = wholeProduct({ extents, bits, block, zeroPoints, bias, beta });
    const { blocks, a, b, scales, zeros, old, results } = drawn;
    const problem: Problem = {
      ...{
        dtype: "f16",
        scaleType,
        bits,
        block,
        mayRoundA: false,
        m,
        n,
        k,
        blocks,
        beta,
        activation: "relu",
      },
      a: device().place(a, "f16", before),
      b: device().place(b, "u8", before),
      scales: device().place(scales, scaleType, 3),
      zeroPoints: zeroPoints ? device().place(zeros, "u8", 5) : undefined,
      bias: bias ? device().place(drawn.bias, "f16", 1) : undefined,
      c: device().place(old, "f16", before),
    };
    const { c } = problem;
    const expected = await device().bytes(c);
    expected.set(encode(results, "f16"), c.byteOffset);
    device().run((context) => runQuantizedGemm(context, problem), withMatrixUnits);
    assert.match(device().programs[0]!, /^quantized_gemm_matrices/);
    if (parts !== undefined) {
      const tile = quantizedMatrixTile(problem, withMatrixUnits(portable))!;
      assert.equal(matrixParts(tile, n, k).parts, parts);
    }
    const got = await device().bytes(c);
    const wrong = got.findIndex((byte, i) => byte !== expected[i]);
    const { zeroPoints: places, bias: added } = problem;
    device().free(problem.a, problem.b, problem.scales, c);
    for (const region of [places, added]) if (region !== undefined) device().free(region);
    if (wrong >= 0)
      assert.fail(
        `${JSON.stringify(call)}: byte ${wrong - c.byteOffset} is ${got[wrong]}, not ${expected[wrong]}`,
      );
  }

  for (const tile of quantizedMatrixTiles) {
    const { rows, columns } = tile;

    it(`is right where a tile of ${rows} x ${columns} is full, and beyond its edge`, async () => {
      await check({ extents: [rows, columns, 256], zeroPoints: true, before: 16, bias: true });
      await check({ extents: [rows - 3, columns + 6, 288], beta: 2, zeroPoints: true, before: 16 });
    });

    it(`is right with 8 bits, and results that share words, by a tile of ${rows} x ${columns}`, async () => {
      const eight = { bits: 8, scaleType: "f16" } as const;
      await check({ ...eight, extents: [rows - 1, columns - 1, 96], block: 64, beta: -1, bias: true });
    });
  }

  it("adds up parts of long sums", () => check({ extents: [20, 40, 1376], block: 128, parts: 3 }));

  it("multiplies nothing past k by an infinite scale", async () => {
    const [m, n, k, block] = [20, 3, 32, 128] as const;
    const problem: Problem = {
      ...{ dtype: "f16", scaleType: "f32", bits: 8, block, m, n, k, blocks: 1, beta: 0 },
      ...{ mayRoundA: false, zeroPoints: undefined, bias: undefined, activation: undefined },
      a: device().place(new Float32Array(m * k).fill(1), "f16"),
      b: device().place(new Float32Array(n * block).fill(200), "u8"),
      scales: device().place(new Float32Array(n).fill(Number.POSITIVE_INFINITY), "f32"),
      c: device().place(new Float32Array(m * n), "f16"),
    };
    device().run((context) => runQuantizedGemm(context, problem), withMatrixUnits);
    assert.match(device().programs[0]!, /^quantized_gemm_matrices/);
    const got = await device().bytes(problem.c);
    const infinite = encode(new Float32Array(m * n).fill(Number.POSITIVE_INFINITY), "f16");
    assert.deepEqual([...got.subarray(0, infinite.length)], [...infinite]);
    device().free(problem.a, problem.b, problem.scales, problem.c);
  });
});

describe("tiles of webgpu quantizedGemm on matrix units", () => {
  const features = withMatrixUnits(portable);
  const region = (byteOffset: number) => ({ byteOffset }) as Problem["a"];
  const tileOf = (change: object, on = features) =>
    quantizedMatrixTile({ dtype: "f16", m: 20, k: 64, a: region(0), b: region(16), ...change }, on);

  it("fit the workgroup memory and the invocations that a device with them has", () => {
    for (const tile of quantizedMatrixTiles) {
      assert.isAtMost(quantizedMatrixBytes(tile), features.limits.maxComputeWorkgroupStorageSize);
      assert.isAtMost(32 * tile.subgroups, features.limits.maxComputeInvocationsPerWorkgroup);
    }
  });

  it("take f16 in whole runs, and some rows", () => {
    assert.deepEqual(
      [9, 16, 17, 32, 33, 64].map((m) => tileOf({ m })?.rows),
      [16, 16, 32, 32, 64, 64],
    );
    const others = [{ m: 8 }, { m: 65 }, { k: 48 }, { dtype: "f32" }, { a: region(8) }, { b: region(1) }];
    for (const change of others) assert.isUndefined(tileOf(change), JSON.stringify(change));
    assert.isUndefined(tileOf({}, portable));
    assert.isUndefined(tileOf({}, { ...features, subgroupMinSize: 16 }));
  });

  it("have parts of whole steps, which cover all of k", () => {
    for (const tile of quantizedMatrixTiles)
      for (const [n, k] of [
        [1, 32],
        [4096, 4096],
        [11_008, 4096],
        [2048, 5632],
        [100_000, 4096],
      ] as const) {
        const { parts, depth } = matrixParts(tile, n, k);
        assert.isTrue(parts * depth >= k && (parts - 1) * depth < k, `${parts} parts of ${depth}`);
        assert.equal(depth % 32, 0);
        assert.isAtMost(parts * tile.rows * n, mostSums(tile.rows, n));
      }
  });
});
