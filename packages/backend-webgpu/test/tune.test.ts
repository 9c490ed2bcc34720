// Tags: long
import type { TuningData, WebGpuBackend, WebGpuOptions } from "@backplane/backend-webgpu";
import { type ComputeBackend, encodeFloat16 } from "@backplane/core";
import { assert } from "chai";
import type { TuningMeans } from "#src/tuning/tune.js";
import { random } from "./support.js";
import { few, k, m, n, product, rigged, sum, withTuned } from "./tuned.js";

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
    const before = backend.memory();
    const progress: string[] = [];
    const report = await backend.tune(
      (plan) => {
        for (let i = 0; i < 3; i++) product(plan);
        plan.unary({ kind: "exp", n: 4, input: plan.alloc(16), output: plan.alloc(16) });
      },
      { onProgress: (done, shapes) => progress.push(`${done} of ${shapes}`) },
    );
    assert.deepEqual(backend.memory(), before);
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
  }).timeout(60_000);

  it("exports what another backend imports, until that tunes anew; forced variants go before both", async () => {
    await open({}, rigged({ subgroups: 0.3, workgroups: 0.5 }));
    const { tuning } = await backend.tune(sum);
    assert.equal(tuning.entries[0]!.variant, "subgroups");
    const quick = await kernelsOf(sum);
    await backend.dispose();

    const copy = JSON.parse(JSON.stringify(tuning)) as TuningData;
    const foreign = { ...copy, adapter: { ...copy.adapter, device: "another" } };
    await open({ tuning: [foreign, copy] }, rigged({ subgroups: 1, workgroups: 0.5 }));
    assert.deepEqual(backend.tuning, tuning);
    const about = (): string[] => tuned.lines.filter((line) => line.includes("tuning"));
    assert.deepEqual(about(), [
      `webgpu: tuning ignored: its adapter has device "another", and not "${copy.adapter.device}"`,
    ]);
    assert.deepEqual(await kernelsOf(sum), quick);
    await kernelsOf(sum);
    assert.lengthOf(about(), 2);
    assert.match(about()[1]!, /^webgpu: uses tuning with 1 entries, first for reduce \(/);
    const report = await backend.tune(sum);
    assert.deepInclude(report.entries[0], { variant: "workgroups", defaultVariant: "workgroups" });
    assert.lengthOf(backend.tuning.entries, 1);
    assert.notDeepEqual(await kernelsOf(sum), quick);
    // A fresh device of the same adapter goes on with what was found on the one before.
    const { entries } = backend.tuning;
    await backend.loseDevice();
    assert.throws(() => backend.tuning, /^tuning: /);
    await backend.init();
    assert.deepEqual(backend.tuning.entries, entries);
    await backend.dispose();

    const timed: string[] = [];
    await open({ ...few, variants: { gemm: "direct_8x64" } }, rigged({}, timed));
    const { skipped, entries: none } = await backend.tune(product);
    assert.deepEqual([none, timed], [[], []]);
    assert.deepInclude(skipped[0], { operation: "gemm", reason: "forced by the option variants" });
  }).timeout(60_000);

  it("keeps the default unless another is faster by the margin", async () => {
    await open({}, rigged({ subgroups: 0.98, workgroups: 1 }));
    const [entry] = (await backend.tune(sum)).entries;
    assert.deepInclude(entry, { variant: "workgroups", seconds: 1, defaultSeconds: 1 });
    const [bold] = (await backend.tune(sum, { margin: 0.01 })).entries;
    assert.deepInclude(bold, { variant: "subgroups", seconds: 0.98, defaultSeconds: 1 });
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
  }).timeout(60_000);

  it("runs on numbers of its own, and touches nothing of the caller's", async () => {
    await open({}, rigged({ subgroups: 0.1 }));
    const [input, output] = [backend.alloc(2 * 30 * 401), backend.alloc(64)];
    backend.copyHtoD(input, encodeFloat16(new Float32Array(30 * 401).fill(3)));
    backend.copyHtoD(output, encodeFloat16(new Float32Array(32).fill(7)));
    await backend.tune((b) =>
      b.reduce({ kind: "max", shape: [30, 401], axes: [1], input, output, dtype: "f16" }),
    );
    const [kept, results] = [new Uint16Array(30 * 401), new Uint16Array(32)];
    await backend.copyDtoH(kept, input);
    await backend.copyDtoH(results, output);
    assert.deepEqual([...new Set(kept), ...new Set(results)], [0x4200, 0x4700]);
  });

  it("leaves the backend to its users meanwhile", async () => {
    const means = rigged({ subgroups: 0.1 });
    const seen = new Set<number>();
    await open(
      {},
      {
        ...means,
        async measure(...args) {
          const data = backend.alloc(4);
          backend.copyHtoD(data, Float32Array.of(3));
          // Between the runs that are timed.
          const timed = args[2]();
          backend.unary({ kind: "neg", n: 1, input: data, output: data });
          await timed;
          const result = new Float32Array(1);
          await backend.copyDtoH(result, data);
          backend.free(data);
          seen.add(result[0]!);
          return means.measure!(...args);
        },
      },
    );
    assert.deepInclude((await backend.tune(sum)).entries[0], { variant: "subgroups" });
    assert.deepEqual([...seen], [-3]);
    assert.equal(backend.memory().liveAllocations, 0);
  });

  for (const [what, options] of [
    ["by timestamps", {}],
    ["by waiting, where there are no timestamps", { disableFeatures: ["timestamp-query"] }],
  ] as const)
    it(`times ${what}`, async () => {
      let now = 0;
      const times: number[] = [];
      await open(options, {
        now: () => (now += 1000),
        async measure(_, repeats, time) {
          times.push((await time()) / repeats);
          return times.at(-1)!;
        },
      });
      const before = backend.memory();
      const { entries } = await backend.tune(sum);
      assert.isTrue(times.every((seconds) => seconds >= 0 && seconds < 10));
      assert.isAbove(Math.max(...times), 0);
      assert.isAbove(entries[0]!.seconds, 0);
      assert.equal(backend.memory().reservedBytes, before.reservedBytes);
    }).timeout(60_000);
});
