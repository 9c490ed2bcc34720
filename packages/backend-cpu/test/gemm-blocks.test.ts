import { expect } from "chai";
import { noEpilogue } from "#src/kernels/epilogue.js";
import { BlockPlanner } from "#src/kernels/gemm/blocks.js";
import { gemmKernelsOf } from "#src/kernels/gemm/gemm.js";
import { blocking, gemmVariants } from "#src/kernels/gemm/variants.js";

const variant = gemmVariants[0]!;
const region = { memory: { byteOffset: 0, byteLength: 0 }, byteOffset: 0, byteLength: 0 };

/** How the first product of a plan is divided: chunks down, across, and in all; rows and columns of one. */
function chunksOf(
  { m, n, batch = 1 }: { readonly m: number; readonly n: number; readonly batch?: number },
  workers: number,
): readonly [down: number, across: number, all: number, rows: number, columns: number] {
  const k = 300;
  const problem = {
    ...{ dtype: "f32" as const, m, n, k, batch, alpha: 1, beta: 0, transA: false, transB: false },
    ...{ lda: k, ldb: n, ldc: n, strideA: m * k, strideB: k * n, strideC: m * n },
    ...{ a: region, b: region, c: region, bias: undefined, activation: undefined },
  };
  const kernels = gemmKernelsOf(variant).f32;
  const context = { features: { relaxedSimd: true }, workers, workspace: () => 0 };
  const launches = new BlockPlanner(problem, kernels, variant.tile, context, noEpilogue).plan();
  const product = launches.find(({ kernel }) => kernel === kernels.multiply.name)!;
  // Where they are among the parameters.
  const [rows, columns, down, across] = product.words.slice(12, 16) as [number, number, number, number];
  return [down, across, product.chunks, rows, columns];
}

describe("BlockPlanner", () => {
  it("divides a block of C into small chunks, at least four for each worker, as many for each", () => {
    expect(chunksOf({ m: 512, n: 512 }, 1)).to.deep.equal([9, 2, 18, 60, 256]);
    expect(chunksOf({ m: 512, n: 512 }, 2)).to.deep.equal([9, 2, 18, 60, 256]);
    // Nine in all would be five and four.
    expect(chunksOf({ m: 540, n: 256 }, 1)).to.deep.equal([9, 1, 9, 60, 256]);
    expect(chunksOf({ m: 540, n: 256 }, 2)).to.deep.equal([9, 2, 18, 60, 128]);
    // Five would be too few.
    expect(chunksOf({ m: 300, n: 200 }, 1)).to.deep.equal([5, 1, 5, 60, 200]);
    expect(chunksOf({ m: 300, n: 200 }, 2)).to.deep.equal([5, 2, 10, 60, 104]);
    // Matrices of a batch are chunks, too.
    expect(chunksOf({ m: 300, n: 200, batch: 2 }, 2)).to.deep.equal([5, 1, 10, 60, 200]);
  });

  it("covers every row and column, in parts that are multiples of the tile, and none of them empty", () => {
    for (const m of [257, 360, 361, 2047, 2048])
      for (const n of [1, 63, 65, 127, 256, 257, 1000, 2048])
        for (const workers of [1, 2, 7]) {
          const [down, across, all, rows, columns] = chunksOf({ m, n }, workers);
          const label = `${m} x ${n}, ${workers} workers`;
          expect(all, label).to.equal(down * across);
          expect(down * rows, label).to.be.at.least(m);
          expect((down - 1) * rows, label).to.be.below(m);
          expect(across * columns, label).to.be.at.least(n);
          expect((across - 1) * columns, label).to.be.below(n);
          expect([rows % variant.tile.rows, columns % variant.tile.columns], label).to.deep.equal([0, 0]);
          expect(rows, label).to.be.at.most(blocking.chunkRows);
          expect(columns, label).to.be.at.most(blocking.chunkColumns);
        }
  });
});
