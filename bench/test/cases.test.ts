// Tags: proof, pure, long
import { createCpuBackend } from "@backplane/backend-cpu";
import { type ComputeBackend, operationNames } from "@backplane/core";
import { expect } from "chai";
import type { Case } from "#src/cases/case.js";
import { sweeps, tables } from "#src/cases/tables.js";
import { Expectations, openContender } from "#src/contender.js";
import { takes } from "#src/measure.js";

const all: readonly Case[] = [tables.small, tables.large, sweeps.small, sweeps.large].flat();

describe("tables of cases", () => {
  it("name every case once, and cover every operation", () => {
    for (const cases of [...Object.values(tables), ...Object.values(sweeps)]) {
      const names = cases.map(({ name }) => name);
      expect(new Set(names).size).to.equal(names.length);
    }
    for (const cases of Object.values(tables))
      expect(cases.map(({ operation }) => operation)).to.include.members([
        ...operationNames,
        "small operation",
        "transfer",
      ]);
  });

  it("hold every target, and compare each with what it names", () => {
    const goals = tables.large.map(({ name, goal }) => {
      expect(goal, name).not.to.equal(undefined);
      return `${name} | ${goal!.against} ${goal!.atLeast}`;
    });
    expect(goals).to.include.members([
      "gemm f32 4096 x 4096 x 4096 | torch 0.9",
      "gemm f32 8192 x 8192 x 8192 | torch 0.9",
      "gemm f32 4096 x 4096 x 4096, NT | case 0.85",
      "gemm f32 4096 x 4096 x 4096, TN | case 0.85",
      "gemm f32 4096 x 4096 x 4096, TT | case 0.85",
      "gemm f32 4095 x 4097 x 4093 | case 0.85",
      "gemm f32 4096 x 4096 x 4096, padded rows | case 0.85",
      "gemm f16 4096 x 4096 x 4096 | torch 0.6",
      "gemm f16 8192 x 8192 x 8192 | torch 0.6",
      "gemm f16 4096 x 4096 x 4096, NT | case 0.9",
      "gemm f16 4095 x 4097 x 4093 | case 0.9",
      "gemm f16 4096 x 4096 x 4096, no matrix units | case 1",
      "batchedGemm f32 64 x 512^3 | torch 0.75",
      "batchedGemm f32 1024 x 64^3 | torch 0.75",
      "gemm f32 1 x 16384 x 16384 | copy 0.75",
      "gemm f32 8 x 16384 x 16384 | copy 0.75",
      "gemm f32 32 x 16384 x 16384 | copy 0.75",
      "gemm f32 128 x 128 x 65536 | torch 0.75",
      "conv2d f32 32x256x56x56, 3x3 to 256 | torch 0.6",
      "conv2d f32 32x256x56x56, 1x1 to 1024 | torch 0.6",
      "conv2d f32 32x3x224x224, 7x7 stride 2 to 64 | torch 0.6",
      "conv2d f32 32x256x56x56, depthwise 3x3 to 256 | torch 0.6",
      "attention f32 batch 4, 16 heads, length 2048, size 64 | torch 0.8",
      "attention f32 batch 4, 16 heads, length 2048, size 128, causal | torch 0.8",
      "attention f16 batch 4, 16 heads, length 8192, size 128 | torch 0.3",
      "attention f16 batch 1, 32 heads on 8, 1 query, 16384 keys, size 128 | copy 0.6",
      "reduce f32 sum of 268435456, all | copy 0.85",
      "reduce f32 max of 4096 x 64 x 1024, axis 1 | copy 0.85",
      "unary f32 gelu of 67108864 | copy 0.9",
      "binary f32 add 67108864 | copy 0.9",
      "binary f32 add a row to 8192 x 8192 | copy 0.9",
      "dependent negations of 1024, per operation | time 1",
      "dependent negations of 1024, recorded, per operation | time 1",
      "read back 4 bytes | time 1",
      "read back 4 bytes after a recorded step | time 1",
      "synchronize after one negation of 1024 | time 1",
      "read back 64 KiB | time 1",
      "read back 1024 KiB | time 1",
      "upload 4 MiB | torch 1",
      "download 4 MiB | torch 0.8",
      "upload 256 MiB | torch 1",
      "download 256 MiB | torch 0.8",
      "gemm f32 4096 x 4096 x 4096, peers | time 1.3",
      "binary f32 add 67108864, peers | time 1.3",
    ]);
  });

  it("give anchors plain data", () => {
    for (const { name, problem } of all)
      expect(JSON.parse(JSON.stringify(problem)), name).to.deep.equal(problem);
  });

  it("leave to matrix units what is theirs", () => {
    const [f32, f16] = ["f32", "f16"].map(
      (dtype) => tables.large.find((test) => test.dtype === dtype && test.matrices !== false)!,
    );
    const sum = tables.large.find(({ operation }) => operation === "reduce")!;
    const [attention, masked] = [false, true].map(
      (isMasked) =>
        tables.large.find(
          ({ operation, dtype, name }) =>
            operation === "attention" && dtype === "f32" && name.includes("mask") === isMasked,
        )!,
    );
    const [plain, units, products] = [
      { matrices: false },
      { matrices: true, only: "f16" },
      { matrices: true, only: "f32 products" },
    ] as const;
    expect([takes(plain, f32!), takes(plain, f16!)]).to.deep.equal([true, false]);
    expect([takes(units, f32!), takes(units, f16!)]).to.deep.equal([false, true]);
    expect([f32!, f16!, sum].map((test) => takes(products, test))).to.deep.equal([true, false, false]);
    expect([attention!, masked!].map((test) => takes(products, test))).to.deep.equal([true, false]);
  });
});

describe("checks before timing", () => {
  let backend: ComputeBackend;
  before(async () => {
    backend = createCpuBackend({ threads: 1 });
    await backend.init();
  });
  after(() => backend.dispose());

  for (const test of tables.small)
    it(`accept the cpu backend's ${test.name}`, async () => {
      const contender = await openContender(backend, test, new Expectations(test));
      expect(contender.worstError).to.be.within(0, 1);
      // Whatever the clock says meanwhile.
      expect(await contender.sample({ sample: 0, warmUp: 0 })).to.be.at.least(0);
      await contender.close();
      expect(backend.memory().liveBytes).to.equal(0);
    });

  for (const test of tables.small)
    it(`reject a wrong result of ${test.name}`, async () => {
      // Off by more than what is allowed, everywhere; some results must be exact, or nearly so.
      const wrong: Case = {
        ...test,
        expected(inputs, index) {
          const { value, tolerance } = test.expected(inputs, index);
          const wrong = value + 2.1 * tolerance;
          return { value: Math.abs(wrong - value) > tolerance ? wrong : value + 1, tolerance };
        },
      };
      let failure: unknown;
      await openContender(backend, wrong, new Expectations(wrong)).catch((error: unknown) => {
        failure = error;
      });
      expect(failure)
        .to.be.an("error")
        .with.property("message")
        .that.matches(/^element \d+ is /);
      expect(backend.memory().liveBytes).to.equal(0);
    });

  it("reject a result that was never written", async () => {
    const [test] = tables.small;
    const idle: Case = { ...test!, prepare: () => ({ call: () => {} }) };
    let failure: unknown;
    await openContender(backend, idle, new Expectations(idle)).catch((error: unknown) => {
      failure = error;
    });
    expect(failure).to.be.an("error").with.property("message").that.includes("is 12345");
  });
});
