// Tags: once
import type { TuneOptions, WebGpuBackend, WebGpuOptions } from "@backplane/backend-webgpu";
import type { ComputeBackend } from "@backplane/core";
import { assert } from "chai";
import { all } from "#src/all.js";
import { makeProvider } from "#src/backend.js";
import type { TuningMeans } from "#src/tuning/tune.js";
import { deviceEnds, findDawn, foreignDevice, rejection } from "./support.js";
import { rigged, sum, withTuned } from "./tuned.js";

describe("webgpu tune, where something goes wrong", () => {
  let backend: WebGpuBackend;
  const tuned = withTuned();
  const { kernelsOf } = tuned;

  async function open(options: WebGpuOptions, means: TuningMeans): Promise<void> {
    backend = await tuned.open(options, means);
  }

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
    assert.match(refused.dropped[0]!.reason, /^fails: .*the device refuses the program reduce/);
    faulty((code) => code.replaceAll("subgroupAdd(share", "2.0 * subgroupAdd(share"));
    const wrong = await backend.tune(sum);
    assert.lengthOf(wrong.entries, 0);
    assert.match(wrong.dropped[0]!.reason, /^gives .* where the default gives /);
    assert.isTrue(tuned.lines.some((line) => line.includes("reduce never takes subgroups")));
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
  });

  it("skips what takes so long that another kernel might make a driver reset the device", async () => {
    const timed: string[] = [];
    // Coarse timestamps may see no time at all.
    await open({}, { ...rigged({ subgroups: 0.1 }, timed), longestSeconds: -1 });
    const { entries, skipped } = await backend.tune(sum);
    assert.deepEqual([entries, timed], [[], []]);
    assert.match(skipped[0]!.reason, /^it takes \d+ ms by default, so others may take too long/);
  });

  it("refuses what it cannot do, and says why", async () => {
    const unopened = makeProvider(findDawn, all, {}).create();
    assert.equal((await rejection(unopened.tune(sum))).code, "NOT_INITIALIZED");
    assert.throws(() => unopened.tuning, /^tuning: /);
    await open({}, rigged({}));
    for (const [options, message] of [
      [{ onProgress: 3 }, /^tune: onProgress is 3; allowed: a function/],
      [{ budgetMilliseconds: -1 }, /^tune: budgetMilliseconds is -1; allowed: a number from 0/],
      [{ maxBytes: Number.NaN }, /^tune: maxBytes is NaN; allowed: a number from 0/],
      [{ margins: 0.1 }, /^tune: margins is unknown \(is margin meant\?\); allowed: onProgress, signal/],
      [{ margin: 2 }, /^tune: margin is 2; allowed: a number from 0 to 1/],
      [{ signal: "now" }, /^tune: signal is now; allowed: an AbortSignal/],
    ] as [object, RegExp][])
      assert.match((await rejection(backend.tune(sum, options as TuneOptions))).message, message);
    assert.match((await rejection(backend.tune(3 as unknown as () => void))).message, /^tune: plan is 3/);
    const bad = await rejection(backend.tune((b) => b.fill(b.alloc(4), 1, 2)));
    assert.match(bad.message, /^fill: /);
    const first = backend.tune(sum);
    const busy = async (message: RegExp) => {
      const error = await rejection(backend.tune(sum));
      assert.equal(error.code, "BUSY");
      assert.match(error.message, message);
    };
    await busy(/^tune: it runs already/);
    await first;
    await backend.profile(() => busy(/^tune: a profile is being taken/));
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

  for (const [what, code, end] of deviceEnds)
    it(`ends when the device is ${what}`, async () => {
      await open(
        {},
        {
          ...rigged({}),
          measure: async () => {
            await end(backend);
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
