import type { TuneOptions, TuningData, WebGpuBackend, WebGpuOptions } from "@backplane/backend-webgpu";
import { type ComputeBackend, type DeviceHandle, encodeFloat16 } from "@backplane/core";
import { assert } from "chai";
import { makeProvider } from "#src/backend.js";
import type { TuningMeans } from "#src/tuning/tune.js";
import { findDawn, foreignDevice, random, rejection } from "./support.js";

/** So little that a handful of kernels can run: they take long to compile here. */
const few: WebGpuOptions = {
  limits: { maxComputeInvocationsPerWorkgroup: 64, maxComputeWorkgroupStorageSize: 8192 },
};

/** Seconds by variant, whatever the device does; others take a second. No time is spent on warming up. */
function rigged(seconds: Readonly<Record<string, number>>, timed: string[] = []): TuningMeans {
  let now = 0;
  return {
    now: () => (now += 1000),
    async measure({ operation, variant }) {
      timed.push(`${operation} ${variant}`);
      return seconds[variant] ?? 1;
    },
  };
}

const [m, n, k] = [24, 20, 16];

function product(backend: ComputeBackend, more: { dtype?: "f16"; beta?: number } = {}): DeviceHandle {
  const [a, b, c] = [backend.alloc(4 * m * k), backend.alloc(4 * k * n), backend.alloc(4 * m * n)];
  backend.gemm({ m, n, k, a, b, c, ...more });
  return c;
}

/** Takes one of two kernels, both quick to compile. */
function sum(backend: ComputeBackend): DeviceHandle {
  const [input, output] = [backend.alloc(4 * 30 * 401), backend.alloc(4 * 30)];
  backend.reduce({ kind: "sum", shape: [30, 401], axes: [1], input, output });
  return output;
}

describe("webgpu tune", () => {
  let backend: WebGpuBackend;
  let lines: string[];

  async function open(options: WebGpuOptions, means: TuningMeans): Promise<void> {
    lines = [];
    const log = (line: string): number => lines.push(line);
    backend = makeProvider(findDawn, { log, ...options }, means).create();
    await backend.init();
  }

  afterEach(() => backend?.dispose());

  /** The kernels that some work runs. */
  async function kernelsOf(work: (backend: ComputeBackend) => unknown): Promise<string[]> {
    const { rows } = await backend.profile(() => void work(backend));
    const names = rows.map(({ kernel }) => kernel);
    return names.filter((name) => !name.startsWith("fill")).sort();
  }

  it("takes the fastest from then on, gives right results by it, and leaves no memory behind", async () => {
    const timed: string[] = [];
    await open(few, rigged({ direct_8x16: 0.25, tiled_32x32x16_4x4: 0.2 }, timed));
    assert.match((await kernelsOf(product)).join(), /gemm_direct_8x16_f32/);
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
      ...{ operation: "gemm", variant: "tiled_32x32x16_4x4", seconds: 0.2 },
      ...{ defaultVariant: "direct_8x16", defaultSeconds: 0.25 },
    });
    assert.include(shape, { dtype: "f32", m, n, k, transA: false });
    assert.deepEqual(report.tuning, backend.tuning);
    assert.deepEqual(JSON.parse(JSON.stringify(report.tuning)), report.tuning);
    // First alone, and seven rounds of those that have a chance: the third takes a second.
    const count = (variant: string): number => timed.filter((name) => name === `gemm ${variant}`).length;
    assert.deepEqual(["direct_8x16", "tiled_32x32x16_4x4", "direct_8x64"].map(count), [8, 8, 1]);
    assert.include(
      lines.find((line) => line.startsWith("webgpu: tuned gemm")),
      "tiled_32x32x16_4x4 takes 200000.0 us; the default direct_8x16 250000.0 us",
    );
    assert.match((await kernelsOf(product)).join(), /^gemm_(tiled_)?32x32x16_4x4/);
    assert.isTrue(lines.some((line) => line.includes("gemm takes tiled_32x32x16_4x4 (tuned for the shape)")));
    // Another shape is computed as ever.
    const others = await kernelsOf((b) =>
      b.gemm({ m: m - 1, n, k, a: b.alloc(4 * m * k), b: b.alloc(4 * k * n), c: b.alloc(4 * m * n) }),
    );
    assert.match(others.join(), /direct_8x16/);

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
    const tuned = await kernelsOf(sum);
    await backend.dispose();

    const copy = JSON.parse(JSON.stringify(tuning)) as TuningData;
    const foreign = { ...copy, adapter: { ...copy.adapter, device: "another" } };
    await open({ tuning: [foreign, copy] }, rigged({ subgroups: 1, workgroups: 0.5 }));
    assert.deepEqual(backend.tuning, tuning);
    const about = (): string[] => lines.filter((line) => line.includes("tuning"));
    assert.deepEqual(about(), [
      `webgpu: tuning ignored: its adapter has device "another", and not "${copy.adapter.device}"`,
    ]);
    assert.deepEqual(await kernelsOf(sum), tuned);
    await kernelsOf(sum);
    assert.lengthOf(about(), 2);
    assert.match(about()[1]!, /^webgpu: uses tuning with 1 entries, first for reduce \(/);
    const report = await backend.tune(sum);
    assert.deepInclude(report.entries[0], { variant: "workgroups", defaultVariant: "workgroups" });
    assert.lengthOf(backend.tuning.entries, 1);
    assert.notDeepEqual(await kernelsOf(sum), tuned);
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

  it("never takes a kernel that is wrong, or that the device refuses", async () => {
    await open({}, rigged({ subgroups: 0.1, workgroups: 1 }));
    const device = backend.native() as GPUDevice;
    const { createShaderModule } = device;
    const faulty = (fault: (code: string) => string): void => {
      device.createShaderModule = ({ label, code }) =>
        createShaderModule.call(device, {
          label: label!,
          code: code.includes("enable subgroups") ? fault(code) : code,
        });
    };
    faulty(() => "no program");
    const refused = await backend.tune(sum);
    assert.lengthOf(refused.entries, 0);
    assert.equal(refused.dropped[0]!.variant, "subgroups");
    assert.match(refused.dropped[0]!.reason, /^fails: the device refuses the program reduce/);
    faulty((code) => code.replaceAll("subgroupAdd(share", "2.0 * subgroupAdd(share"));
    const wrong = await backend.tune(sum);
    assert.lengthOf(wrong.entries, 0);
    assert.match(wrong.dropped[0]!.reason, /^gives .* where the default gives /);
    assert.isTrue(lines.some((line) => line.includes("reduce never takes subgroups")));
    await backend.synchronize();
    await kernelsOf(sum);
  });

  it("ends with the reason of its signal, and changes nothing then", async () => {
    const abortion = new AbortController();
    const means = rigged({ subgroups: 0.1 });
    await open(
      {},
      {
        ...means,
        measure: async (...args) => {
          abortion.abort(new Error("enough"));
          return means.measure!(...args);
        },
      },
    );
    const [before, kernels] = [backend.memory(), await kernelsOf(sum)];
    const { signal } = abortion;
    const outcome = await backend.tune(sum, { signal }).catch((error: unknown) => error);
    assert.strictEqual(outcome, signal.reason);
    assert.equal((outcome as Error).message, "enough");
    assert.isEmpty(backend.tuning.entries);
    assert.isAtMost(backend.memory().reservedBytes, before.reservedBytes + 2 * 65_536);
    assert.deepEqual(await kernelsOf(sum), kernels);
    const again = await backend.tune(() => {}, { signal }).catch((error: unknown) => error);
    assert.strictEqual(again, signal.reason);
  });

  it("skips what there is no time or no memory for, and says so", async () => {
    await open({}, rigged({ subgroups: 0.1 }));
    const larger = (b: ComputeBackend): void =>
      b.reduce({
        kind: "sum",
        shape: [30, 1001],
        axes: [1],
        input: b.alloc(4 * 30_030),
        output: b.alloc(120),
      });
    const both = (b: ComputeBackend): void => {
      sum(b);
      larger(b);
    };
    const memory = await backend.tune(both, { maxBytes: 100_000 });
    assert.lengthOf(memory.entries, 1);
    assert.deepInclude(memory.skipped[0], {
      operation: "reduce",
      reason: `its operands have ${4 * 30_030 + 120} bytes, and maxBytes is 100000`,
    });
    const time = await backend.tune(both, { budgetMilliseconds: 3000 });
    assert.isEmpty(time.entries);
    assert.deepEqual(
      time.skipped.map(({ reason }) => reason),
      ["the time budget was spent", "the time budget was spent"],
    );
    // The device itself has none: its second answer after a buffer is made is about memory.
    const device = backend.native() as GPUDevice;
    const { createBuffer, popErrorScope } = device;
    let answers = Number.POSITIVE_INFINITY;
    device.createBuffer = (descriptor) => {
      // The input of the larger one, and not the block of numbers that operands are filled with.
      if (descriptor.size >= 4 * 30_030 && descriptor.size < 200_000) answers = 2;
      return createBuffer.call(device, descriptor);
    };
    device.popErrorScope = async () => {
      const isDue = --answers === 0;
      const error = await popErrorScope.call(device);
      return isDue ? ({ message: "no room" } as GPUError) : error;
    };
    const before = backend.memory();
    const { entries, skipped } = await backend.tune(both);
    Object.assign(device, { createBuffer, popErrorScope });
    assert.equal(backend.memory().reservedBytes, before.reservedBytes);
    assert.lengthOf(entries, 1);
    assert.match(skipped[0]!.reason, /^fails: tune: the device cannot hold .* bytes: no room/);
    await backend.synchronize();
    assert.lengthOf((await backend.tune(both)).entries, 2);
  }).timeout(60_000);

  it("skips what takes so long that another kernel might make a driver reset the device", async () => {
    const timed: string[] = [];
    await open({}, { ...rigged({ subgroups: 0.1 }, timed), longestSeconds: 0 });
    const { entries, skipped } = await backend.tune(sum);
    assert.deepEqual([entries, timed], [[], []]);
    assert.match(skipped[0]!.reason, /^it takes \d+ ms by default, so others may take too long/);
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

  it("refuses what it cannot do, and says why", async () => {
    const unopened = makeProvider(findDawn, {}).create();
    assert.equal((await rejection(unopened.tune(sum))).code, "NOT_INITIALIZED");
    assert.throws(() => unopened.tuning, /^tuning: /);
    await open({}, rigged({}));
    for (const [options, message] of [
      [{ onProgress: 3 }, /^tune: onProgress is 3; allowed: a function/],
      [{ budgetMilliseconds: -1 }, /^tune: budgetMilliseconds is -1; allowed: a number from 0/],
      [{ maxBytes: Number.NaN }, /^tune: maxBytes is NaN; allowed: a number from 0/],
      [{ margin: 2 }, /^tune: margin is 2; allowed: a number from 0 to 1/],
      [{ signal: "now" }, /^tune: signal is now; allowed: an AbortSignal/],
    ] as [object, RegExp][])
      assert.match((await rejection(backend.tune(sum, options as TuneOptions))).message, message);
    assert.match((await rejection(backend.tune(3 as unknown as () => void))).message, /^tune: plan is 3/);
    const bad = await rejection(backend.tune((b) => b.fill(b.alloc(4), 1, 2)));
    assert.match(bad.message, /^fill: /);
    const first = backend.tune(sum);
    assert.match((await rejection(backend.tune(sum))).message, /^tune: it runs already/);
    await first;
    await backend.profile(async () => {
      assert.match((await rejection(backend.tune(sum))).message, /^tune: a profile is being taken/);
    });
    assert.isEmpty((await backend.tune(() => {})).entries);
  });

  it("leaves faults that are not its own to others", async () => {
    await open({}, rigged({ subgroups: 0.1 }));
    const other = await foreignDevice();
    const foreign = backend.importBuffer(other.createBuffer({ size: 64, usage: 0x80 | 0x04 | 0x08 }));
    const error = await rejection(
      backend.tune((plan) => {
        sum(plan);
        backend.unary({ kind: "exp", n: 16, input: foreign, output: foreign });
      }),
    );
    assert.equal(error.code, "DEVICE_ERROR");
    assert.match(error.message, /^unary: /);
    other.destroy();
  });

  for (const [what, code, act] of [
    ["lost", "DEVICE_LOST", () => backend.loseDevice()],
    [
      "lost and opened again",
      "DEVICE_LOST",
      async () => {
        await backend.loseDevice();
        await backend.init();
      },
    ],
    ["disposed of", "DISPOSED", () => backend.dispose()],
  ] as [string, string, () => Promise<void>][])
    it(`ends when the device is ${what}`, async () => {
      await open(
        {},
        {
          ...rigged({}),
          measure: async () => {
            await act();
            return 1;
          },
        },
      );
      const error = await rejection(backend.tune(sum));
      assert.equal(error.code, code);
      assert.match(error.message, /^tune: /);
      if (code === "DISPOSED") return;
      await backend.init();
      assert.isEmpty(backend.tuning.entries);
      await backend.synchronize();
    });
});
