import type { TuningData, WebGpuBackend, WebGpuOptions } from "@backplane/backend-webgpu";
import { encodeFloat16 } from "@backplane/core";
import { assert } from "chai";
import type { TuningMeans } from "#src/tuning/tune.js";
import { few, product, rigged, sum, withTuned } from "./tuned.js";

describe("webgpu tune", () => {
  let backend: WebGpuBackend;
  const tuned = withTuned();
  const { kernelsOf } = tuned;

  async function open(options: WebGpuOptions, means: TuningMeans): Promise<void> {
    backend = await tuned.open(options, means);
  }

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
  });

  it("keeps the default unless another is faster by the margin", async () => {
    await open({}, rigged({ subgroups: 0.98, workgroups: 1 }));
    const [entry] = (await backend.tune(sum)).entries;
    assert.deepInclude(entry, { variant: "workgroups", seconds: 1, defaultSeconds: 1 });
    const [bold] = (await backend.tune(sum, { margin: 0.01 })).entries;
    assert.deepInclude(bold, { variant: "subgroups", seconds: 0.98, defaultSeconds: 1 });
  });

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

  it("tunes integers, of which all variants give the same results", async () => {
    await open({}, rigged({ subgroups: 0.1 }));
    for (const dtype of ["i32", "u32"] as const) {
      const { entries, skipped, dropped } = await backend.tune((b) => {
        const [input, output] = [b.alloc(4 * 30 * 401), b.alloc(4 * 30)];
        b.reduce({ kind: "sum", shape: [30, 401], axes: [1], input, output, dtype });
        b.binary({ kind: "less", n: 30, a: input, b: { scalar: 7 }, output, dtype });
      });
      assert.deepEqual([skipped, dropped], [[], []]);
      assert.lengthOf(entries, 1);
      assert.deepInclude(entries[0], { operation: "reduce", variant: "subgroups" });
      assert.include(entries[0]!.shape, { dtype });
    }
    const { tuning } = backend;
    await backend.dispose();
    await open({ tuning: JSON.parse(JSON.stringify(tuning)) as TuningData }, {});
    assert.lengthOf(backend.tuning.entries, 2);
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
          const began = performance.now();
          const seconds = await time();
          // Its own clock may be the device's, which is another and may be coarse.
          const elapsed = (performance.now() - began) / 1000;
          assert.isAtMost(seconds, 1.01 * elapsed + 0.001);
          times.push(seconds / repeats);
          return times.at(-1)!;
        },
      });
      const before = backend.memory();
      const { entries } = await backend.tune(sum);
      assert.isTrue(times.every((seconds) => seconds >= 0));
      assert.isAbove(Math.max(...times), 0);
      assert.isAbove(entries[0]!.seconds, 0);
      assert.equal(backend.memory().reservedBytes, before.reservedBytes);
    });
});
