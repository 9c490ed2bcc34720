// Tags: soak
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createCpuBackend } from "@backplane/backend-cpu";
import type { ComputeBackend } from "@backplane/core";
import { expect } from "chai";
import { MemorySource } from "#src/checkpoint/file.js";
import { readCheckpoint } from "#src/checkpoint/formats.js";
import { loadWeights } from "#src/checkpoint/load.js";
import { Transformer } from "#src/model.js";
import { Sampler } from "#src/sampler.js";
import { ropeFrequencies, type Shape } from "#src/shape.js";
import type { Weights } from "#src/weights.js";
import { Writer } from "#src/writer.js";
import { ggufFile, valuesOf } from "./tiny.js";

const TOKENS = 10_000;
/** Memory is looked at after each of so many parts. */
const PARTS = 10;

/** So small that a token takes some tens of microseconds; each sees only the last few. */
const shape: Shape = {
  ...{ size: 8, hidden: 8, layers: 1, heads: 2, kvHeads: 1, headSize: 4, vocabulary: 300, length: TOKENS },
  ...{ window: 8, epsilon: 1e-5, frequencies: ropeFrequencies(4, 10_000) },
};

/** Without threads, so that nothing but this test is at work. */
async function withWeights(
  body: (backend: ComputeBackend, weights: Weights) => Promise<void>,
): Promise<void> {
  await using backend = createCpuBackend({ threads: 0 });
  await backend.init();
  const source = new MemorySource(ggufFile("F32", { model: { shape, values: valuesOf(shape) } }));
  const { weights, scope } = await loadWeights(backend, source, await readCheckpoint(source), "f32");
  await body(backend, weights);
  scope.dispose();
  expect(backend.memory().liveAllocations).to.equal(0);
}

describe("memory", () => {
  it(`does not grow while ${TOKENS} tokens are written`, async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    await withWeights(async (backend, weights) => {
      const transformer = new Transformer(backend, shape, weights, TOKENS);
      // Chosen by chance, a token takes the longest way through the sampler. Its noise is larger too: medians of up to 28 bytes
      // per token were seen in either direction, and of 17 without chance.
      for (const [temperature, mostGrowth] of [
        [0, 30],
        [1, 100],
      ] as const) {
        const sampler = new Sampler(backend, shape.vocabulary, { temperature, topP: 0.9, seed: 1 });
        const writer = new Writer(backend, transformer, sampler);
        const device = new Set<string>();
        const heap: number[] = [];
        let count = 0;
        for await (const _ of writer.write([1], TOKENS, new Set())) {
          count += 1;
          if (count % (TOKENS / PARTS) !== 0) continue;
          collect();
          const { liveBytes, liveAllocations, peakBytes, reservedBytes } = backend.memory();
          device.add(JSON.stringify({ liveBytes, liveAllocations, peakBytes, reservedBytes }));
          heap.push(process.memoryUsage().heapUsed);
        }
        expect(count).to.equal(TOKENS);
        expect(device).to.have.lengthOf(1);
        // The engine's own books grow and shrink by a part now and then: half of the parts grow no more than by noise.
        // What every token leaves behind would show in nearly all of them: without chance also an empty object.
        const growths = heap.slice(1).map((bytes, i) => bytes - heap[i]!);
        const median = growths.sort((x, y) => x - y)[(PARTS - 2) / 2]!;
        expect(median / (TOKENS / PARTS)).to.be.lessThan(mostGrowth);
        for (const part of [writer, sampler]) part.free();
      }
      transformer.free();
    });
  });

  it("of keys and values is what the model says, and in proportion to the room", async () => {
    await withWeights(async (backend, weights) => {
      const bytesWith = (room: number) => {
        const before = backend.memory().liveBytes;
        const transformer = new Transformer(backend, shape, weights, room);
        const bytes = backend.memory().liveBytes - before;
        const { cacheBytes } = transformer;
        transformer.free();
        return { bytes, cacheBytes };
      };
      const [small, large] = [bytesWith(100), bytesWith(1100)];
      const perToken = 2 * shape.layers * shape.kvHeads * shape.headSize * 4;
      expect([small.cacheBytes, large.cacheBytes]).to.deep.equal([100 * perToken, 1100 * perToken]);
      // Besides the cache, only the angles and the number of each place, and whether it is seen, depend on the room.
      const place = 2 * shape.frequencies.length * 4 + 4 + 1;
      expect(large.bytes - small.bytes).to.equal(1000 * (perToken + place));
    });
  });
});
