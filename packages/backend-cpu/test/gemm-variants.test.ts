import { expect } from "chai";
import { fastest, probeKernel, timeGemmVariants } from "#src/kernels/gemm/choose.js";
import { gemmKernelsOf, gemmOperation } from "#src/kernels/gemm/gemm.js";
import { blocking, fittingGemmVariants, type GemmVariant, gemmVariants } from "#src/kernels/gemm/variants.js";
import { KernelLibrary } from "#src/kernels/library.js";
import { evenParts } from "#src/kernels/vector/index.js";

describe("gemm variants", () => {
  it("chooses among variants that the engine can run and that give the same bits, or takes the one asked for", () => {
    const names = (relaxedSimd: boolean, forced?: string) =>
      fittingGemmVariants({ relaxedSimd }, forced).map(({ name }) => name);
    expect(names(true)).to.deep.equal(["6x8_fma", "6x16_fma"]);
    expect(names(false)).to.deep.equal(["4x8"]);
    const features = { relaxedSimd: true, fewRegisters: true };
    expect(fittingGemmVariants(features, undefined).map(({ name }) => name)).to.deep.equal([
      "4x8_fma",
      "6x16_fma",
    ]);
    expect(fittingGemmVariants(features, "6x8_fma")).to.have.length(1);
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

  it("waits for the first variant where another is ahead: its code may be late", async () => {
    const [first, second] = gemmVariants as [GemmVariant, GemmVariant];
    let time = 0;
    let calls = 0;
    const probe = (variant: GemmVariant, takes: () => number) => ({
      variant,
      run: () => {
        time += takes();
      },
    });
    const probes = [
      // For 20 rounds slow, which are more than there are where the first is ahead.
      probe(first, () => (calls++ < 20 * 16 ? 0.05 : 0.01)),
      // Of twice as many columns.
      probe(second, () => 0.045),
    ];
    const timed = await timeGemmVariants(probes, () => time);
    expect(timed.map(({ variant }) => variant)).to.deep.equal([first, second]);
    expect(fastest(timed)).to.equal(first);
  });

  for (const relaxedSimd of [true, false])
    it(`has a probe among the f32 kernels of its products, relaxed SIMD: ${relaxedSimd}`, () => {
      const features = { relaxedSimd };
      const [first] = fittingGemmVariants(features, undefined) as [GemmVariant];
      const limits = { initialPages: 1, maximumPages: 1, shared: false };
      const library = new KernelLibrary(gemmOperation(undefined, features).kernels, limits, features);
      const { small, strip, multiply } = gemmKernelsOf(first).f32;
      const modules = [probeKernel(first), small, strip, multiply].map(
        ({ name }) => new Uint32Array(library.code.modules, 8 * library.index(name), 1)[0],
      );
      expect(new Set(modules).size).to.equal(1);
    });

  it("divides extents evenly", () => {
    expect(evenParts(512, 240, 6)).to.equal(174);
    expect(evenParts(10, 2048, 8)).to.equal(16);
    expect(evenParts(blocking.n + 1, blocking.n, 8)).to.equal(1032);
  });
});
