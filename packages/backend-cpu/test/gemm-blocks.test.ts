import { expect } from "chai";
import { noEpilogue } from "#src/kernels/epilogue/index.js";
import { BlockPlanner } from "#src/kernels/gemm/blocks.js";
import { gemmKernelsOf } from "#src/kernels/gemm/gemm.js";
import { blocking, gemmVariants } from "#src/kernels/gemm/variants.js";

const variant = gemmVariants[0]!;
const region = { memory: { byteOffset: 0, byteLength: 0 }, byteOffset: 0, byteLength: 0 };

/** How the first product of a plan is divided, see `multiplyTypes`. */
function chunksOf(
  { m, n, batch = 1 }: { readonly m: number; readonly n: number; readonly batch?: number },
  workers: number,
) {
  const k = 300;
  const problem = {
    ...{ dtype: "f32" as const, m, n, k, batch, alpha: 1, beta: 0, transA: false, transB: false },
    ...{ lda: k, ldb: n, ldc: n, strideA: m * k, strideB: k * n, strideC: m * n },
    ...{ a: region, b: region, c: region, bias: undefined, activation: undefined },
  };
  const kernels = gemmKernelsOf(variant).f32;
  const context = { features: { relaxedSimd: true }, workers, workspace: () => 0, late: () => {} };
  const launches = new BlockPlanner(problem, kernels, variant.tile, context, noEpilogue).plan();
  const product = launches.find(({ kernel }) => kernel === kernels.multiply.name)!;
  // Where they are among the parameters.
  const [rows, columns, down, across, early, late] = product.words.slice(15, 21) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  return { rows, columns, down, across, early, late, all: product.chunks };
}

describe("BlockPlanner", () => {
  it("divides a block of C into even chunks of all columns for one worker", () => {
    const one = { across: 1, late: 0 };
    expect(chunksOf({ m: 512, n: 512 }, 1)).to.deep.equal({
      ...one,
      ...{ rows: 108, columns: 512, down: 5, early: 5, all: 5 },
    });
    expect(chunksOf({ m: 300, n: 200, batch: 2 }, 1)).to.deep.equal({
      ...one,
      ...{ rows: 102, columns: 200, down: 3, early: 3, all: 6 },
    });
  });

  it("gives several workers small chunks last, and at least four each", () => {
    const small = { late: 24 };
    expect(chunksOf({ m: 512, n: 512 }, 2)).to.deep.equal({
      ...small,
      ...{ rows: 60, columns: 512, down: 13, across: 1, early: 6, all: 13 },
    });
    expect(chunksOf({ m: 2048, n: 2048 }, 2)).to.deep.equal({
      ...small,
      ...{ rows: 120, columns: 2048, down: 30, across: 1, early: 14, all: 30 },
    });
    // Matrices of a batch are chunks, too.
    expect(chunksOf({ m: 300, n: 200, batch: 2 }, 2)).to.deep.equal({
      ...small,
      ...{ rows: 72, columns: 200, down: 5, across: 1, early: 4, all: 10 },
    });
    // Too few rows for so many workers.
    expect(chunksOf({ m: 257, n: 2048 }, 7)).to.deep.equal({
      ...small,
      ...{ rows: 24, columns: 688, down: 11, across: 3, early: 0, all: 33 },
    });
  });

  it("covers every row and column, in parts that are multiples of the tile, and none of them empty", () => {
    const { rows: tileRows, columns: tileColumns } = variant.tile;
    for (const m of [257, 360, 361, 2047, 2048, 5000])
      for (const n of [1, 63, 65, 127, 256, 257, 1000, 2048])
        for (const workers of [1, 2, 7]) {
          const { rows, columns, down, across, early, late, all } = chunksOf({ m, n }, workers);
          const label = `${m} x ${n}, ${workers} workers`;
          const end = (chunks: number) => Math.min(chunks, early) * rows + Math.max(0, chunks - early) * late;
          expect(all, label).to.equal(down * across);
          expect(end(down), label).to.be.at.least(m);
          expect(end(down - 1), label).to.be.below(m);
          expect(across * columns, label).to.be.at.least(n);
          expect((across - 1) * columns, label).to.be.below(n);
          expect([rows % tileRows, late % tileRows], label).to.deep.equal([0, 0]);
          if (across > 1) expect(columns % tileColumns, label).to.equal(0);
          expect(Math.max(rows, late), label).to.be.at.most(blocking.chunkTiles * tileRows);
        }
  });
});
