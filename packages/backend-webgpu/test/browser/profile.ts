import { createWebGpuBackend } from "@backplane/backend-webgpu";
import type { ComputeBackend } from "@backplane/core";
import { assert } from "chai";

describe("WebGPU profiles in a page", () => {
  it("measure kernels, which a warmup has compiled", async () => {
    const backend = createWebGpuBackend();
    await backend.init();
    const [n, rounds] = [64, 100];
    const step = (b: ComputeBackend): ReturnType<ComputeBackend["alloc"]> => {
      const [x, y] = [b.alloc(4 * n * n), b.alloc(4 * n * n)];
      b.fill(x, 1, n * n);
      for (let i = 0; i < rounds; i++) b.gemm({ m: n, n, k: n, a: x, b: x, c: y });
      return y;
    };
    const { compiledPipelines } = await backend.warmup(step);
    assert.isAtLeast(compiledPipelines, 2);
    const profile = await backend.profile(async () => {
      const results = new Float32Array(1);
      await backend.copyDtoH(results, step(backend));
      return results[0];
    });
    assert.equal(profile.result, n);
    assert.equal(profile.compiledPipelines, 0);
    const gemm = profile.rows.find(({ operation }) => operation === "gemm")!;
    assert.deepEqual([gemm.dispatches, gemm.measured], [rounds, rounds]);
    // However coarse the timestamps, the sum is not 0.
    assert.isAbove(gemm.totalMicroseconds, 0);
    assert.include(String(profile), gemm.kernel);
    await backend.dispose();
  });
});
