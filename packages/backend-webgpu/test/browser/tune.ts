import { createWebGpuBackend, type TuningData } from "@backplane/backend-webgpu";
import type { ComputeBackend } from "@backplane/core";
import { assert } from "chai";

describe("WebGPU tuning in a page", () => {
  it("finds choices that survive the page as text", async () => {
    const step = (b: ComputeBackend): void => {
      // One of few kernels does it, and software adapters compile them soon.
      const [input, output] = [b.alloc(4 * 30 * 401), b.alloc(4 * 30)];
      b.reduce({ kind: "sum", shape: [30, 401], axes: [1], input, output });
      for (const handle of [input, output]) b.free(handle);
    };
    const first = createWebGpuBackend();
    await first.init();
    const held = (): object => {
      const { liveAllocations, liveBytes, pooledBytes, reservedBytes } = first.memory();
      return { liveAllocations, liveBytes, pooledBytes, reservedBytes };
    };
    const before = held();
    const { entries, skipped, tuning } = await first.tune(step);
    assert.isEmpty(skipped);
    assert.deepEqual(
      entries.map(({ operation }) => operation),
      ["reduce"],
    );
    assert.deepEqual(held(), before);
    await first.dispose();

    const lines: string[] = [];
    const text = JSON.stringify(tuning);
    const second = createWebGpuBackend({
      tuning: JSON.parse(text) as TuningData,
      log: (line) => lines.push(line),
    });
    await second.init();
    assert.equal(JSON.stringify(second.tuning), text);
    step(second);
    await second.synchronize();
    assert.isTrue(lines.some((line) => line.startsWith("webgpu: uses tuning with 1 entries")));
    await second.dispose();
  });
});
