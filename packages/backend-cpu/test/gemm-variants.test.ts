import { expect } from "chai";
import { fastest } from "#src/kernels/gemm/choose.js";
import {
  blocking,
  evenParts,
  fittingGemmVariants,
  type GemmVariant,
  gemmVariants,
} from "#src/kernels/gemm/variants.js";

describe("gemm variants", () => {
  it("chooses among variants that the engine can run and that give the same bits, or takes the one asked for", () => {
    const names = (relaxedSimd: boolean, forced?: string) =>
      fittingGemmVariants({ relaxedSimd }, forced).map(({ name }) => name);
    expect(names(true)).to.deep.equal(["6x8_fma", "6x16_fma"]);
    expect(names(false)).to.deep.equal(["5x8"]);
    expect(names(true, "4x8")).to.deep.equal(["4x8"]);
    expect(names(false, "6x8_fma")).to.deep.equal([]);
  });

  it("keeps the first variant unless another is clearly faster", () => {
    const [first, second, third] = gemmVariants as [GemmVariant, GemmVariant, GemmVariant];
    const chosen = (...speeds: readonly [number, number, number]) =>
      fastest([first, second, third].map((variant, i) => ({ variant, gigaflops: speeds[i]! }))).name;
    expect(chosen(60, 41, 30)).to.equal(first.name);
    expect(chosen(60, 65, 61)).to.equal(first.name);
    expect(chosen(60, 110, 70)).to.equal(second.name);
    expect(chosen(60, 70, 110)).to.equal(third.name);
    // Slow code of the first, not yet replaced.
    expect(chosen(15, 41, 14)).to.equal(first.name);
  });

  it("divides extents evenly", () => {
    expect(evenParts(512, 240, 6)).to.equal(174);
    expect(evenParts(10, 2048, 8)).to.equal(16);
    expect(evenParts(blocking.n + 1, blocking.n, 8)).to.equal(1032);
  });
});
