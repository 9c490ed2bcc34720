import type { ComputeBackend, MemoryStatistics } from "@backplane/core";
import { bytesOf, check, law, PendingChecks, pattern, sameBytes } from "../kit/checks.js";
import type { Law } from "../law.js";
import { settled } from "../patience.js";

const topic = "memory";

/** Memory of the pool is reserved, and is not live. */
function checkPool(backend: ComputeBackend, when: string): MemoryStatistics {
  const memory = backend.memory();
  const { liveBytes, reservedBytes, pooledBytes, poolHits, poolMisses } = memory;
  for (const [name, count] of Object.entries({ pooledBytes, poolHits, poolMisses }))
    check(Number.isSafeInteger(count) && count >= 0, `${name} is ${String(count)} ${when}`);
  check(
    liveBytes + pooledBytes <= reservedBytes,
    `${reservedBytes} bytes are reserved ${when}, with ${liveBytes} live and ${pooledBytes} pooled ones`,
  );
  return memory;
}

const sizes = [64, 1000, 1000, 65_537, 300_000, 1 << 20] as const;

export const poolLaws: readonly Law[] = [
  law(topic, "statistics of the pool agree with those of all memory", async ({ fresh }) => {
    const backend = await fresh();
    let before = checkPool(backend, "at first");
    for (let round = 0; round < 6; round++) {
      const handles = sizes.map((size) => backend.alloc(size));
      checkPool(backend, `in round ${round}`);
      for (const handle of handles) backend.fill(handle, round, 16);
      for (const handle of handles) backend.free(handle);
      if (round % 2 === 1) await settled(backend.synchronize(), "synchronize");
      if (round === 3) backend.trim();
      const after = checkPool(backend, `after round ${round}`);
      check(
        after.poolHits >= before.poolHits && after.poolMisses >= before.poolMisses,
        `the pool had ${before.poolHits} hits and ${before.poolMisses} misses, and then ${after.poolHits} and ` +
          `${after.poolMisses}`,
      );
      before = after;
    }
  }),

  law(topic, "trim gives pooled memory back, and leaves all else as it is", async ({ fresh }) => {
    const backend = await fresh();
    for (let round = 0; round < 3; round++) {
      const held = sizes.map((size, i) => {
        const [spare, handle] = [backend.alloc(size, { zero: false }), backend.alloc(size)];
        const image = pattern(size, i + round);
        backend.copyHtoD(spare, image);
        backend.copyDtoD(handle, spare, size);
        // Enqueued work still reads it.
        backend.free(spare);
        return { handle, image };
      });
      // Some of the freed memory is likely to be reused.
      for (const size of sizes.slice(3)) {
        const image = pattern(size, size + round);
        const handle = backend.alloc(size, { zero: false });
        backend.copyHtoD(handle, image);
        held.push({ handle, image });
      }
      const reads = new PendingChecks();
      for (const { handle, image } of held)
        reads.add(
          bytesOf(backend, handle, image.length).then((got) => sameBytes(got, image, "a read before trim")),
        );
      if (round === 1) await settled(backend.synchronize(), "synchronize");
      const before = checkPool(backend, "before trim");
      const answer: unknown = backend.trim();
      check(answer === undefined, `trim answers with ${String(answer)}`);
      const after = checkPool(backend, "after trim");
      check(
        after.pooledBytes <= before.pooledBytes && after.reservedBytes <= before.reservedBytes,
        `${before.pooledBytes} bytes were pooled and ${before.reservedBytes} reserved before trim, and ` +
          `${after.pooledBytes} and ${after.reservedBytes} after it`,
      );
      check(
        after.liveAllocations === before.liveAllocations && after.liveBytes === before.liveBytes,
        "trim changed what is live",
      );
      for (const { handle, image } of held)
        sameBytes(
          await bytesOf(backend, handle, image.length),
          image,
          `${image.length} live bytes after trim`,
        );
      await reads.all();
      const fresh = backend.alloc(65_537);
      sameBytes(await bytesOf(backend, fresh, 65_537), new Uint8Array(65_537), "fresh memory after trim");
      for (const handle of [fresh, ...held.map((entry) => entry.handle)]) backend.free(handle);
    }
    backend.trim();
    backend.trim();
    checkPool(backend, "at the end");
  }),
];
