import { createWebGpuBackend, type TuningData } from "@backplane/backend-webgpu";
import type { ComputeBackend } from "@backplane/core";
import { assert } from "chai";

describe("WebGPU tuning in a page", () => {
  it("finds choices that survive the page as text", async () => {
    const step = (b: ComputeBackend): void => {
      const [q, k, v, out] = [b.alloc(64), b.alloc(64 * 40), b.alloc(64 * 40), b.alloc(64)];
      b.attention({ batch: 1, heads: 1, queryLength: 1, keyLength: 40, headSize: 16, q, k, v, out });
      for (const handle of [q, k, v, out]) b.free(handle);
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
      entries.map(({ operation, shape }) => [operation, shape.keyLength]),
      [["attention", 40]],
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
