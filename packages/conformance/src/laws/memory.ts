import type { DeviceHandle } from "@backplane/core";
import fc from "fast-check";
import {
  bytesOf,
  check,
  law,
  PendingChecks,
  pattern,
  refuses,
  rejects,
  sameBytes,
  unlessRoom,
  withAllocations,
} from "../kit/checks.js";
import type { Law } from "../law.js";
import { settled } from "../patience.js";

const topic = "memory";

/** Sizes around the granules of allocators: words, GPU offsets, pages. */
const size = fc.oneof(
  fc.integer({ min: 1, max: 70 }),
  fc.constantFrom(128, 255, 256, 257, 260, 1000, 4095, 4096, 4099, 65537),
);

/** Enough bytes that a copy takes a moment. */
const busyBytes = 2 ** 22;

export const memoryLaws: readonly Law[] = [
  law(topic, "fresh bytes are zero, also where memory is used again", async ({ backend, forAll }) => {
    const sizes = fc.array(size, { minLength: 1, maxLength: 6 });
    await forAll(
      fc.record({ sizes, less: fc.nat(9), rounds: fc.integer({ min: 1, max: 4 }) }),
      async (given) => {
        for (let round = 0; round <= given.rounds; round++) {
          const wanted = given.sizes.map((bytes) => Math.max(1, bytes - round * given.less));
          await withAllocations(backend, wanted, async (...handles) => {
            const found = handles.map((handle, i) => bytesOf(backend, handle, wanted[i]!));
            for (const [i, bytes] of (await Promise.all(found)).entries())
              sameBytes(bytes, new Uint8Array(wanted[i]!), `fresh allocation ${i} in round ${round}`);
            for (const [i, handle] of handles.entries()) backend.fill(handle, 0xff, wanted[i]!, "u8");
          });
        }
      },
    );
  }),

  law(topic, "fresh bytes are zero right after a free, without any wait", async ({ backend }) => {
    const reads = new PendingChecks();
    for (let round = 0; round < 40; round++) {
      const bytes = 64 + (round % 5) * 100;
      const handle = backend.alloc(bytes);
      const what = `fresh allocation of round ${round}`;
      reads.add(bytesOf(backend, handle, bytes).then((got) => sameBytes(got, new Uint8Array(bytes), what)));
      backend.fill(handle, 0xff, bytes, "u8");
      backend.free(handle);
    }
    await reads.all();
  }),

  law(topic, "memory that need not be zero is otherwise the same", async ({ backend }) => {
    const handle = backend.alloc(21, { zero: false });
    backend.copyHtoD(handle, pattern(21, 1));
    sameBytes(await bytesOf(backend, handle, 21), pattern(21, 1), "zero: false");
    backend.free(handle);
    const zeroed = backend.alloc(21, { zero: true });
    sameBytes(await bytesOf(backend, zeroed, 21), new Uint8Array(21), "zero: true");
    backend.free(zeroed);
  }),

  law(topic, "an allocation of 0 bytes is one", async ({ backend }) => {
    const before = backend.memory();
    const [one, two] = [backend.alloc(0), backend.alloc(0)];
    check(one !== two, "two allocations have one handle");
    check(backend.memory().liveAllocations === before.liveAllocations + 2, "it is not counted");
    backend.copyHtoD(one, new Uint8Array(0));
    backend.copyDtoD(one, two, 0);
    backend.copyDtoD(one, one, 0);
    backend.fill(one, 1, 0);
    await settled(backend.copyDtoH(new Uint8Array(0), one), "copyDtoH");
    refuses("OUT_OF_BOUNDS", "copyHtoD of 1 byte", () => backend.copyHtoD(one, new Uint8Array(1)));
    refuses("OUT_OF_BOUNDS", "fill of 1 byte", () => backend.fill(one, 0, 1, "u8"));
    await rejects("OUT_OF_BOUNDS", "copyDtoH of 1 byte", () => backend.copyDtoH(new Uint8Array(1), one));
    backend.free(one);
    backend.free(two);
    refuses("INVALID_HANDLE", "a second free", () => backend.free(one));
  }),

  law(
    topic,
    "handles are positive whole numbers that survive JSON and are never reused",
    async ({ backend }) => {
      const seen = new Set<number>();
      for (let i = 0; i < 200; i++) {
        const handle = backend.alloc(8);
        check(Number.isSafeInteger(handle) && handle > 0, `alloc gave ${String(handle)}`);
        check(!seen.has(handle), `handle ${handle} was issued twice`);
        seen.add(handle);
        backend.free(JSON.parse(JSON.stringify(handle)));
      }
    },
  ),

  law(topic, "work that was enqueued completes though its memory is freed", async ({ backend }) => {
    const reads = new PendingChecks();
    for (let round = 0; round < 20; round++) {
      const content = pattern(300, round);
      const source = backend.alloc(300);
      const result = backend.alloc(300);
      backend.copyHtoD(source, content);
      backend.copyDtoD(result, source, 300);
      backend.free(source);
      // Likely to get the memory that was just freed.
      const next = backend.alloc(300);
      backend.fill(next, 0xdd, 300, "u8");
      backend.free(next);
      const what = `the copy of round ${round}`;
      reads.add(bytesOf(backend, result, 300).then((got) => sameBytes(got, content, what)));
      backend.free(result);
    }
    await reads.all();
  }),

  {
    ...law(topic, "pending reads find their bytes though all they read is freed", async ({ backend }) => {
      await withAllocations(backend, [busyBytes, busyBytes, 64], async (one, two, live) => {
        for (let round = 0; round < 16; round++) {
          // Neighbours of equal and of different sizes.
          const sizes = Array.from(
            { length: 2 + (round % 6) },
            (_, i) => 64 + (((round >> 2) * i * 97) % 900),
          );
          const handles = sizes.map((bytes) => backend.alloc(bytes, { zero: false }));
          const reads = new PendingChecks();
          const read = (handle: DeviceHandle, bytes: number, seed: number) => {
            const what = `read ${seed} of ${sizes.length} in round ${round}`;
            const expected = pattern(bytes, seed);
            reads.add(bytesOf(backend, handle, bytes).then((got) => sameBytes(got, expected, what)));
          };
          for (const [i, handle] of [live, ...handles].entries())
            backend.copyHtoD(handle, pattern(i === 0 ? 64 : sizes[i - 1]!, i));
          // Work, so that the reads are pending while they are overtaken.
          for (let i = 0; i < 8; i++)
            backend.copyDtoD(i % 2 === 0 ? one : two, i % 2 === 0 ? two : one, busyBytes);
          read(live, 64, 0);
          for (const [i, handle] of handles.entries()) read(handle, sizes[i]!, i + 1);
          if (round % 2 === 1) handles.reverse();
          for (const handle of handles) backend.free(handle);
          // If the backend sets aside the contents for this read now, it must not use the place that the
          // other reads are of.
          backend.fill(live, round, 64, "u8");
          const next = backend.alloc(sizes[0]!, { zero: false });
          backend.fill(next, 0xdd, sizes[0]!, "u8");
          backend.free(next);
          await reads.all();
        }
      });
    }),
    exempt: unlessRoom(busyBytes),
  },

  law(topic, "statistics are exact", async ({ fresh }) => {
    const backend = await fresh();
    const expect = (liveAllocations: number, liveBytes: number, peakBytes: number) => {
      const got = backend.memory();
      const same =
        got.liveAllocations === liveAllocations && got.liveBytes === liveBytes && got.peakBytes === peakBytes;
      const expected = JSON.stringify({ liveAllocations, liveBytes, peakBytes });
      check(same, `memory() is ${JSON.stringify(got)}, expected ${expected}`);
      check(got.reservedBytes >= liveBytes, `${got.reservedBytes} bytes reserved for ${liveBytes} live ones`);
    };
    expect(0, 0, 0);
    const one = backend.alloc(100);
    expect(1, 100, 100);
    const two = backend.alloc(33, { zero: false });
    expect(2, 133, 133);
    const three = backend.alloc(0);
    expect(3, 133, 133);
    backend.free(one);
    expect(2, 33, 133);
    refuses("INVALID_HANDLE", "a second free", () => backend.free(one));
    expect(2, 33, 133);
    refuses("INVALID_ARGUMENT", "alloc(-1)", () => backend.alloc(-1));
    const { maxAllocationBytes } = backend.capabilities.limits;
    refuses("OUT_OF_MEMORY", "alloc past the limit", () => backend.alloc(maxAllocationBytes + 1));
    expect(2, 33, 133);
    const four = backend.alloc(101);
    expect(3, 134, 134);
    for (const handle of [two, three, four]) backend.free(handle);
    expect(0, 0, 134);
    await settled(backend.synchronize(), "synchronize");
    expect(0, 0, 134);
  }),

  law(
    topic,
    "an allocation past the limit is refused as OUT_OF_MEMORY, and nothing else",
    async ({ backend }) => {
      const { maxAllocationBytes } = backend.capabilities.limits;
      const before = backend.memory();
      for (const bytes of [maxAllocationBytes + 1, 2 * maxAllocationBytes, Number.MAX_SAFE_INTEGER])
        if (Number.isSafeInteger(bytes))
          refuses("OUT_OF_MEMORY", `alloc(${bytes})`, () => backend.alloc(bytes));
      const { liveAllocations, liveBytes, peakBytes } = backend.memory();
      check(
        liveAllocations === before.liveAllocations &&
          liveBytes === before.liveBytes &&
          peakBytes === before.peakBytes,
        "a refused allocation is counted",
      );
      await withAllocations(backend, [16], async (handle) => {
        backend.copyHtoD(handle, pattern(16, 1));
        sameBytes(await bytesOf(backend, handle, 16), pattern(16, 1), "an allocation after a refused one");
      });
      await settled(backend.synchronize(), "synchronize");
    },
  ),

  law(topic, "rounds of work leave nothing behind", async ({ fresh }) => {
    const backend = await fresh();
    const round = (index: number) => {
      const bytes = 65536 + (index % 7) * 64;
      const [one, two] = [backend.alloc(bytes), backend.alloc(bytes)];
      backend.fill(one, index, bytes / 4);
      if (backend.supports("unary", { kind: "neg" }))
        backend.unary({ kind: "neg", n: bytes / 4, input: one, output: two });
      else backend.copyDtoD(two, one, bytes);
      const last = new Float32Array(1);
      const read = backend.copyDtoH(last, { handle: two, byteOffset: bytes - 4 });
      backend.free(one);
      backend.free(two);
      return { read, last };
    };
    let reserved = 0;
    for (let index = 1; index <= 300; index++) {
      const { read, last } = round(index);
      if (index % 10 === 0) {
        await settled(read, "copyDtoH");
        check(Math.abs(last[0]!) === index, `round ${index} gave ${last[0]}`);
      } else read.catch(() => {});
      if (index === 100) {
        await settled(backend.synchronize(), "synchronize");
        reserved = backend.memory().reservedBytes;
      }
    }
    await settled(backend.synchronize(), "synchronize");
    const { liveAllocations, liveBytes, reservedBytes } = backend.memory();
    check(
      liveAllocations === 0 && liveBytes === 0,
      `${liveAllocations} allocations of ${liveBytes} bytes live`,
    );
    // Pools may keep what was needed at one time, but more rounds may not need more.
    const allowed = 2 * reserved + 2 ** 20;
    check(
      reservedBytes <= allowed,
      `${reservedBytes} bytes are reserved after 300 rounds, ${reserved} after 100`,
    );
  }),
];
