// Tags: kernels, pure, long
import type { WebGpuBackend, WebGpuOptions } from "@backplane/backend-webgpu";
import type { ComputeBackend } from "@backplane/core";
import { assert } from "chai";
import type { TuningMeans } from "#src/tuning/tune.js";
import { random } from "./support.js";
import { few, k, m, n, product, rigged, withTuned } from "./tuned.js";

describe("webgpu tune", () => {
  let backend: WebGpuBackend;
  const tuned = withTuned();
  const { kernelsOf } = tuned;

  async function open(options: WebGpuOptions, means: TuningMeans): Promise<void> {
    backend = await tuned.open(options, means);
  }

  it("takes the fastest from then on, gives right results by it, and leaves no memory behind", async () => {
    const timed: string[] = [];
    const seconds: Record<string, number> = { direct_8x16: 0.25, tiled_32x32x16_4x4: 0.25 };
    await open(few, rigged(seconds, timed));
    // What is usual on emulated devices, or on others.
    const isUsual = (variant: string, kernels: readonly string[]): boolean =>
      kernels.join().startsWith(`gemm_${variant.replace("tiled_", "")}_f32`);
    const direct = isUsual("direct_8x16", await kernelsOf(product));
    const [usual, better] = direct
      ? (["direct_8x16", "tiled_32x32x16_4x4"] as const)
      : (["tiled_32x32x16_4x4", "direct_8x16"] as const);
    assert.isTrue(isUsual(usual, await kernelsOf(product)));
    seconds[better] = 0.2;
    await backend.synchronize();
    const held = (): object => {
      const { liveAllocations, liveBytes, pooledBytes, reservedBytes } = backend.memory();
      return { liveAllocations, liveBytes, pooledBytes, reservedBytes };
    };
    const before = held();
    const progress: string[] = [];
    const report = await backend.tune(
      (plan) => {
        for (let i = 0; i < 3; i++) product(plan);
        plan.unary({ kind: "exp", n: 4, input: plan.alloc(16), output: plan.alloc(16) });
      },
      { onProgress: (done, shapes) => progress.push(`${done} of ${shapes}`) },
    );
    assert.deepEqual(held(), before);
    assert.deepEqual(progress, ["1 of 1"]);
    assert.deepEqual([report.skipped, report.dropped], [[], []]);
    assert.lengthOf(report.entries, 1);
    const { shape, ...entry } = report.entries[0]!;
    assert.deepEqual(entry, {
      ...{ operation: "gemm", variant: better, seconds: 0.2 },
      ...{ defaultVariant: usual, defaultSeconds: 0.25 },
    });
    assert.include(shape, { dtype: "f32", m, n, k, transA: false });
    assert.deepEqual(report.tuning, backend.tuning);
    assert.deepEqual(JSON.parse(JSON.stringify(report.tuning)), report.tuning);
    // First alone, and seven rounds of those that have a chance: the third takes a second.
    const count = (variant: string): number => timed.filter((name) => name === `gemm ${variant}`).length;
    assert.deepEqual([usual, better, "direct_8x64"].map(count), [8, 8, 1]);
    assert.include(
      tuned.lines.find((line) => line.startsWith("webgpu: tuned gemm")),
      `${better} takes 200000.0 us; the default ${usual} 250000.0 us`,
    );
    assert.isTrue(isUsual(better, await kernelsOf(product)));
    assert.isTrue(tuned.lines.some((line) => line.includes(`gemm takes ${better} (tuned for the shape)`)));
    // Another shape is computed as ever.
    const others = await kernelsOf((b) =>
      b.gemm({ m: m - 1, n, k, a: b.alloc(4 * m * k), b: b.alloc(4 * k * n), c: b.alloc(4 * m * n) }),
    );
    assert.isTrue(isUsual(usual, others));

    const next = random(5);
    const numbers = (count: number): Float32Array => Float32Array.from({ length: count }, () => next() - 0.5);
    const [a, b] = [numbers(m * k), numbers(k * n)];
    const [left, right, c] = [backend.alloc(4 * m * k), backend.alloc(4 * k * n), backend.alloc(4 * m * n)];
    backend.copyHtoD(left, a);
    backend.copyHtoD(right, b);
    backend.gemm({ m, n, k, a: left, b: right, c });
    const results = new Float32Array(m * n);
    await backend.copyDtoH(results, c);
    for (const [i, value] of results.entries()) {
      let expected = 0;
      for (let j = 0; j < k; j++) expected += a[Math.floor(i / n) * k + j]! * b[j * n + (i % n)]!;
      assert.approximately(value, expected, 1e-5);
    }
  });

  it("looks into what a winner needs that the default did not", async () => {
    const timed: string[] = [];
    // Of a convolution with filters of one tap, the default here is the product; its own kernel is tried too.
    await open(few, rigged({ gemm: 0.2, direct_8x64: 0.1 }, timed));
    const shapes = { inputShape: [1, 4, 4, 4], filterShape: [4, 4, 1, 1] } as const;
    const pointwise = (b: ComputeBackend): void =>
      b.conv2d({ ...shapes, input: b.alloc(256), filter: b.alloc(64), output: b.alloc(256) });
    const { entries } = await backend.tune(pointwise);
    assert.deepEqual(
      entries.map(({ operation, variant }) => [operation, variant]),
      [
        ["conv2d", "gemm"],
        ["gemm", "direct_8x64"],
      ],
    );
    assert.match((await kernelsOf(pointwise)).join(), /gemm_direct_8x64/);
  });
});
