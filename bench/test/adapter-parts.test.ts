// Tags: kernels, pure
import { variantNames } from "@backplane/backend-webgpu";
import { expect } from "chai";
import { parts, runPart } from "#src/adapter/parts.js";

describe("the parts in which an adapter is put before the laws", () => {
  it("are one for each tier and each kernel that can be forced", () => {
    const names = parts.map(({ name }) => name);
    expect(new Set(names).size).to.equal(names.length);
    for (const tier of ["baseline", "subgroups", "shader-f16", "subgroup-matrices"])
      expect(names).to.include(`tier ${tier}`);
    for (const [operation, variants] of Object.entries(variantNames))
      for (const variant of variants) expect(names).to.include(`${operation} as ${variant}`);
  });

  it("open what a kernel needs beyond its name", () => {
    const { options } = parts.find(({ variant }) => variant?.startsWith("split_"))!;
    expect(options).to.include({ tier: "subgroup-matrices", f32Products: "split-f16" });
    const transformed = parts.find(({ variant }) => variant === "transformed_2x2")!;
    expect(transformed.options).to.include({ transformedConvolutions: "2x2" });
  });

  it("keep the laws by a forced kernel, and say which it was", async () => {
    const part = parts.find(({ name }) => name === "gemm as direct_8x16")!;
    const report = await runPart(part, { seed: 1, mode: "quick" });
    expect(report).to.deep.include({ name: part.name, broken: [], unfinished: [] });
    expect(report.impossible).to.equal(undefined);
    expect(report.kept).to.be.above(10);
    expect(report.worst).to.be.within(0.001, 1);
    expect(report.details.variants).to.equal("gemm: direct_8x16");
  });

  it("leave out laws on operations that are not asked for", async () => {
    const part = parts.find(({ name }) => name === "tier baseline")!;
    const { broken, kept } = await runPart(part, { seed: 1, mode: "quick", operations: ["select"] });
    expect(broken).to.deep.equal([]);
    expect(kept).to.be.within(5, 300);
  });
});
