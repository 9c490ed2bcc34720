import { assert } from "chai";
import { blasBlocking, blasChunk, blasComputes, nativeProducts, usesBlas } from "#src/kernels/gemm/blas.js";
import { gemmOperation } from "#src/kernels/gemm/gemm.js";
import { blasUse, fittingGemmVariants } from "#src/kernels/gemm/variants.js";
import type { PlanContext } from "#src/kernels/kernel.js";
import { sgemmName } from "#src/native/sgemm-types.js";

const withBlas = { relaxedSimd: true, blas: true };

function problem(m: number, n: number, k: number, changes: { dtype?: "f16"; lda?: number } = {}) {
  return { dtype: "f32" as const, m, n, k, lda: k, ldb: n, ldc: n, ...changes };
}

describe("the choice between a native library and WebAssembly", () => {
  it("follows from what is there and what is asked for", () => {
    const choice = (blas: boolean, forced?: string) => blasUse({ relaxedSimd: true, blas }, forced);
    assert.equal(choice(false), "never");
    assert.equal(choice(true), "where faster");
    assert.equal(choice(true, "blas"), "where possible");
    assert.equal(choice(true, "5x8"), "never");
    assert.equal(choice(false, "blas"), "never");
    // What the library does not have goes to the tiles.
    const tiles = (forced?: string) => fittingGemmVariants(withBlas, forced);
    assert.deepEqual(tiles("blas"), tiles());
  });

  it("is for the library from some size on", () => {
    const chosen = blasUse(withBlas, undefined);
    for (const [m, n, k, expected] of [
      [32, 32, 32, true],
      [32, 32, 31, false],
      [16, 16, 16, false],
      [4, 1000, 1000, true],
      [3, 1000, 1000, false],
      [1000, 2, 1000, true],
      [1000, 1, 1000, false],
      [1, 4096, 4096, false],
      [2048, 2048, 2048, true],
    ] as const)
      assert.equal(usesBlas(problem(m, n, k), chosen), expected, `${m} x ${n} x ${k}`);
  });

  it("is for the library whatever the size where it is asked for by name, if it has the operation", () => {
    const chosen = blasUse(withBlas, "blas");
    assert.isTrue(usesBlas(problem(1, 1, 1), chosen));
    assert.isFalse(usesBlas(problem(64, 64, 64, { dtype: "f16" }), chosen));
    assert.isTrue(blasComputes(problem(1, 64, 64, { lda: 2 ** 31 - 1 })));
    assert.isFalse(blasComputes(problem(1, 64, 64, { lda: 2 ** 31 })));
  });

  it("is made by backends that may have a library, and only by these", () => {
    const size = 64;
    const region = {
      memory: { byteOffset: 0, byteLength: 4 * size * size },
      byteOffset: 0,
      byteLength: 4 * size * size,
    };
    const whole = {
      ...problem(size, size, size),
      ...{ alpha: 1, beta: 0, transA: false, transB: false, bias: undefined, activation: undefined },
      ...{ batch: 1, strideA: 0, strideB: 0, strideC: 0, a: region, b: region, c: region },
    };
    const context: PlanContext = { features: withBlas, workers: 1, workspace: () => 0, late: () => {} };
    const kernels = (operation: ReturnType<typeof gemmOperation>, tools: PlanContext) =>
      operation.plan(whole, tools).map(({ kernel }) => kernel);
    assert.notInclude(kernels(gemmOperation(), context), sgemmName);
    assert.deepEqual(kernels(gemmOperation(), { ...context, nativeProducts }), [sgemmName]);
    assert.notInclude(kernels(gemmOperation("6x8_fma"), { ...context, nativeProducts }), sgemmName);
    // Epilogues are ours.
    const relu = gemmOperation().plan({ ...whole, activation: "relu" }, { ...context, nativeProducts });
    assert.equal(relu[0]!.kernel, sgemmName);
    assert.isAbove(relu.length, 1);
  });

  it("is never for a library that another variant is asked for instead of", () => {
    assert.isFalse(usesBlas(problem(512, 512, 512), blasUse(withBlas, "5x8")));
  });
});

describe("chunks for a native library", () => {
  const { leastArea, mostArea, unit } = blasBlocking;

  it("cover C, within the bounds of size", () => {
    for (const m of [1, 15, 16, 17, 128, 129, 500, 512, 1000, 2048, 5000])
      for (const n of [1, 16, 31, 200, 256, 512, 1024, 3001, 100_000]) {
        const { rows, columns } = blasChunk(m, n);
        const label = `${m} x ${n}: ${rows} x ${columns}`;
        assert.equal(rows % unit, 0, label);
        assert.equal(columns % unit, 0, label);
        assert.isAtMost(Math.min(rows, m) * Math.min(columns, n), 1.3 * mostArea, label);
        const chunks = Math.ceil(m / rows) * Math.ceil(n / columns);
        if (chunks > 1) assert.isAtLeast((m * n) / chunks, leastArea / 2, label);
        // Enough for some workers, where there is enough to do.
        if (m * n >= 4 * leastArea && Math.min(m, n) >= unit) assert.isAtLeast(chunks, 3, label);
      }
  });

  it("are as measured for square matrices", () => {
    assert.deepEqual(blasChunk(128, 128), { rows: 128, columns: 128 });
    assert.deepEqual(blasChunk(256, 256), { rows: 128, columns: 128 });
    assert.deepEqual(blasChunk(512, 512), { rows: 256, columns: 256 });
    assert.deepEqual(blasChunk(1024, 1024), { rows: 512, columns: 512 });
    assert.deepEqual(blasChunk(2048, 2048), { rows: 512, columns: 512 });
  });
});
