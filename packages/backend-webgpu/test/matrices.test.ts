// Tags: kernels, pure, long
import { assert } from "chai";
import { gemmVariants } from "#src/kernels/gemm/index.js";
import { withMatrixUnits, withoutMatrixUnits } from "./emulated-matrices.js";
import { checkGemm, type GemmCase, transposes } from "./gemm-cases.js";
import { withProducts } from "./products.js";

/** The kernels themselves: that devices with matrix units compile and keep them is seen on those only. */
describe("webgpu gemm on matrix units", () => {
  const device = withProducts();
  before(() => {
    device().instead = withoutMatrixUnits;
  });
  const check = async (shape: GemmCase, name: string) => {
    await checkGemm(device(), { dtype: "f16", ...shape }, name, withMatrixUnits);
    const kernels = device().programs.filter((program) => program.startsWith("gemm_matrices"));
    assert.lengthOf(kernels, 1, device().programs.join());
    return device().programs;
  };

  const smallest = gemmVariants.findLast(({ kind }) => kind === "matrices")!.name;

  for (const variant of gemmVariants) {
    if (variant.kind !== "matrices") continue;
    const { name, tile } = variant;

    it(`${name} is right where a tile is full, at its edges and beyond`, async () => {
      const [m, n, k] = [tile.rows + 8, tile.columns + 16, 2 * tile.depth + 8];
      // A and B each in both of their orders; the texts of larger tiles differ by numbers only.
      const some = transposes.filter(({ transA, transB }) => name === smallest || (!transA && !transB));
      for (const transpose of some) {
        const programs = await check({ m, n, k, ...transpose, padA: 8, padB: 16, padC: 4, offset: 8 }, name);
        assert.lengthOf(programs, 1, "nothing is packed");
      }
    });

    it(`${name} packs what is not aligned, and applies epilogues`, async () => {
      const [m, n, k] = [tile.rows / 2 + 3, tile.columns / 2 + 5, tile.depth + 7];
      const beyond = { batch: 2, gap: 3, offset: 1, padA: 1, padC: 1, alpha: 0.75, beta: 0.5 };
      const programs = await check({ m, n, k, ...beyond, bias: true, activation: "silu" }, name);
      const turned = tile.rows > tile.columns ? ["gemm_turn"] : ["gemm_pack"];
      assert.sameMembers(programs.slice(0, -1), [...turned, "gemm_pack"]);
      if (name !== smallest) return;
      await check({ m: 24, n: 40, k, multiple: 8, bias: true, activation: "relu", beta: 0.5 }, name);
    });
  }

  it("packs or turns for every transpose, whatever is missing of a unit", async () => {
    for (const transpose of transposes)
      for (const [m, n, k] of [
        [1, 1, 1],
        [7, 9, 33],
        [10, 14, 71],
      ] as const)
        await check({ m, n, k, ...transpose, padA: 1, padB: 2, beta: 0.5 }, smallest);
  });

  it("turns what lies along k for the longer side of a tile, at any place and in any number", async () => {
    // Blocks of 64, rows that begin at either half of a word, and units with 1 to 8 rows.
    for (const [m, n, k, more] of [
      [10, 64, 64, { padB: 1 }],
      [9, 71, 65, { offset: 1 }],
      [12, 130, 70, { offset: 3, padB: 2, padC: 3, beta: -1 }],
      [9, 66, 33, { batch: 3, gap: 1, alpha: 2 }],
      [9, 66, 33, { batch: 2, gap: 1, sideBySide: true }],
    ] as const) {
      await check({ m, n, k, transB: true, padA: 1, ...more }, smallest);
      assert.deepEqual(device().programs.slice(0, -1), ["gemm_pack", "gemm_turn"]);
    }
  });

  it("writes each half of a word by itself, and nothing around the results", async () => {
    for (const epilogue of [{}, { activation: "silu" }] as const)
      for (let offset = 0; offset < 3; offset++)
        await check(
          { m: 67, n: 129 + offset, k: 16, padC: offset, offset, beta: 0.5, ...epilogue },
          smallest,
        );
  });

  it("sums whole numbers exactly, in parts too", async () => {
    await check({ m: 16, n: 24, k: 41, whole: true, alpha: 2, beta: -3, multiple: 8 }, smallest);
    await check({ m: 16, n: 24, k: 900, whole: true }, smallest);
    assert.match(device().programs.join(), /gemm_combine/);
  });

  it("sums every step of k once, from wherever a tile begins", async () => {
    // One span of 512 that is walked through in turns, and a rest that is not.
    for (const both of [false, true])
      await check({ m: 72, n: 136, k: 600, transA: both, transB: both, whole: true, multiple: 8 }, smallest);
  });

  it("copies only what has to be", async () => {
    const copied = async (shape: Partial<GemmCase>) => {
      const programs = await check({ m: 16, n: 24, k: 32, ...shape }, smallest);
      return programs.map((program) => program.replace(/gemm_matrices.*(matrix|scratch).*/, "$1"));
    };
    assert.deepEqual(await copied({}), ["matrix"]);
    assert.deepEqual(await copied({ padA: 1 }), ["gemm_pack", "matrix"]);
    assert.deepEqual(await copied({ k: 31, transB: false }), ["gemm_pack", "matrix"]);
    assert.deepEqual(await copied({ k: 31, transB: true }), ["gemm_pack", "gemm_turn", "matrix"]);
    assert.deepEqual(await copied({ padC: 1 }), ["matrix"]);
    assert.deepEqual(await copied({ batch: 3, padA: 4, padB: 4, broadcastA: true }), [
      "gemm_pack",
      "gemm_pack",
      "matrix",
    ]);
  });
});
