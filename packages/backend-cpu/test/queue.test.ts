import type { BackendError } from "@backplane/core";
import { expect } from "chai";
import { Heap } from "#src/heap.js";
import { KernelLibrary } from "#src/kernels/library.js";
import { planCopy, planFill } from "#src/kernels/memory/memory.js";
import { InlineQueue } from "#src/queue/inline.js";
import { ringSlots, words } from "#src/queue/protocol.js";
import { openRig, type Rig, rejection, rotate, step, trap } from "./queue-rig.js";

/** A turn of the event loop. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

for (const threads of [1, 2]) {
  describe(`ThreadedQueue with ${threads} worker${threads === 1 ? "" : "s"}`, () => {
    let rig: Rig;
    beforeEach(async () => {
      rig = await openRig(threads);
    });
    afterEach(() => rig.queue.close());

    it("executes thousands of commands in order, far more than the ring holds", async () => {
      const { queue } = rig;
      const word = rig.place(4);
      let expected = 0;
      for (let i = 0; i < 20 * ringSlots; i++) {
        queue.enqueue(step.launch({ word, factor: 31, term: i }, 1));
        expected = (Math.imul(expected, 31) + i) >>> 0;
      }
      await queue.synchronize();
      expect(rig.words(word, 1)[0]).to.equal(expected);
    });

    it("finishes all chunks of a command before the next starts", async () => {
      const { queue } = rig;
      const count = 50;
      const places = [rig.place(4 * count), rig.place(4 * count)] as const;
      const rounds = 2000;
      for (let i = 0; i < rounds; i++) {
        const [source, target] = i % 2 === 0 ? places : ([places[1], places[0]] as const);
        queue.enqueue(rotate.launch({ source, target, count }, count));
        // Let the queue run empty at times, and let workers fall asleep.
        if (i % 300 === 0) await queue.synchronize();
        if (i % 900 === 0) while (Atomics.load(rig.control, words.sleepers) < threads) await turn();
      }
      await queue.synchronize();
      expect([...rig.words(places[rounds % 2]!, count)]).to.deep.equal(new Array(count).fill(rounds));
    });

    it("never runs a kernel on the caller's thread", async () => {
      const { queue } = rig;
      const [first, second] = [rig.gate(), rig.gate(threads)];
      const word = rig.place(4);
      // On the caller's thread this would not come to an end.
      queue.enqueue(first.launch);
      const waiting = queue.synchronize();
      queue.enqueue(second.launch);
      queue.enqueue(step.launch({ word, factor: 1, term: 1 }, 1));
      first.open();
      await waiting;
      expect(rig.words(word, 1)[0]).to.equal(0);
      second.open();
      await queue.synchronize();
      expect(rig.words(word, 1)[0]).to.equal(1);
    });

    it("takes writes as they were at the call, in order with commands", async () => {
      const { queue } = rig;
      const word = rig.place(4);
      const source = new Uint32Array(1);
      let expected = 0;
      const { launch, open } = rig.gate();
      queue.enqueue(launch);
      // More than the ring, and more bytes than staging holds.
      for (let i = 0; i < 3000; i++) {
        // The rest while commands are carried out.
        if (i === 2000) open();
        source[0] = i;
        queue.write(word, new Uint8Array(source.buffer));
        queue.enqueue(step.launch({ word, factor: 3, term: 1 }, 1));
        expected = 3 * i + 1;
      }
      source[0] = 0xdead;
      await queue.synchronize();
      expect(rig.words(word, 1)[0]).to.equal(expected);
    });

    it("takes writes of any size while it is busy", async () => {
      const { queue } = rig;
      const sizes = [1, 100, 20_000, 32_768, 32_769, 65_536, 200_000, 7, 30_000, 30_000, 30_000];
      const places = sizes.map((size) => rig.place(size));
      const before = rig.memory.buffer.byteLength;
      const { launch, open } = rig.gate();
      queue.enqueue(launch);
      for (let round = 0; round < 3; round++) {
        for (const [i, size] of sizes.entries()) {
          const source = new Uint8Array(size).fill(10 * round + i);
          queue.write(places[i]!, source);
          source.fill(255);
        }
      }
      open();
      await queue.synchronize();
      for (const [i, size] of sizes.entries()) {
        const bytes = new Uint8Array(rig.memory.buffer, places[i]!, size);
        expect(
          bytes.every((byte) => byte === 20 + i),
          `size ${size}`,
        ).to.equal(true);
      }
      // What was staged is bounded, however much was written.
      expect(rig.memory.buffer.byteLength - before).to.be.at.most(2 << 20);
    });

    it("reads what the commands before left, whatever comes after", async () => {
      const { queue } = rig;
      const word = rig.place(4);
      const reads: Promise<void>[] = [];
      const results: Uint32Array[] = [];
      const blocks = rig.heap.usedBlocks;
      for (let i = 0; i < 2000; i++) {
        queue.enqueue(step.launch({ word, factor: 1, term: 1 }, 1));
        const result = new Uint32Array(1);
        results.push(result);
        reads.push(queue.read(new Uint8Array(result.buffer), word));
        // Both ways of changing the place: a command, and a write from the host.
        if (i % 10 === 5) queue.write(word, new Uint8Array(new Uint32Array([i + 1]).buffer));
      }
      await Promise.all(reads);
      expect(results.map((result) => result[0])).to.deep.equal(results.map((_, i) => i + 1));
      // Nothing is left of the staging of reads; the ring for writes stays.
      expect(rig.heap.usedBlocks).to.be.at.most(blocks + 1);
    });

    it("reads from memory that is freed and handed out again at once", async () => {
      const { queue, heap } = rig;
      const results: Uint8Array[] = [];
      const reads: Promise<void>[] = [];
      for (let i = 0; i < 300; i++) {
        const allocation = heap.allocate(1000);
        const { address } = allocation;
        const memory = { byteOffset: address, byteLength: 1000 };
        const pattern = (i % 256) * 0x01010101;
        queue.enqueue(planFill({ memory, byteOffset: 0, byteLength: 1000 }, pattern));
        const result = new Uint8Array(1000);
        results.push(result);
        reads.push(queue.read(result, address));
        queue.release(allocation);
      }
      await Promise.all(reads);
      for (const [i, result] of results.entries())
        expect(
          result.every((byte) => byte === i % 256),
          `read ${i}`,
        ).to.equal(true);
    });

    it("does not let a write overtake a read that is pending and due", async () => {
      const { queue } = rig;
      const word = rig.place(4);
      for (let i = 0; i < 200; i++) {
        queue.enqueue(step.launch({ word, factor: 0, term: i }, 1));
        const result = new Uint32Array(1);
        const read = queue.read(new Uint8Array(result.buffer), word);
        // Until the command is over, without a turn of the event loop.
        if (i % 3 === 0)
          while (Atomics.load(rig.control, words.completed) !== Atomics.load(rig.control, words.published));
        queue.write(word, new Uint8Array(new Uint32Array([0xdead]).buffer));
        await read;
        expect(result[0]).to.equal(i);
      }
    });

    it("fills shared and unshared destinations, and parts of buffers", async () => {
      const { queue } = rig;
      const place = rig.place(16);
      queue.write(
        place,
        Uint8Array.from({ length: 16 }, (_, i) => i),
      );
      const shared = new Uint8Array(new SharedArrayBuffer(8), 2, 4);
      const part = new Uint8Array(10).fill(9);
      queue.enqueue(planCopy(place + 8, place, 8));
      await Promise.all([queue.read(shared, place + 9), queue.read(part.subarray(3, 6), place)]);
      expect([...shared]).to.deep.equal([1, 2, 3, 4]);
      expect([...part]).to.deep.equal([9, 9, 9, 0, 1, 2, 9, 9, 9, 9]);
    });

    it("settles promises in the order of the calls", async () => {
      const { queue } = rig;
      const word = rig.place(4);
      const order: number[] = [];
      const promises: Promise<unknown>[] = [];
      for (let i = 0; i < 20; i++) {
        queue.enqueue(step.launch({ word, factor: 1, term: 1 }, 1));
        const promise = i % 2 === 0 ? queue.synchronize() : queue.read(new Uint8Array(4), word);
        promises.push(promise.then(() => order.push(i)));
      }
      await Promise.all(promises);
      expect(order).to.deep.equal(order.toSorted((a, b) => a - b));
    });

    it("never forgets a command that is published while the one before it ends", async () => {
      const { queue } = rig;
      const word = rig.place(4);
      const rounds = 20_000;
      for (let i = 0; i < rounds; i++) {
        queue.enqueue(step.launch({ word, factor: 1, term: 1 }, 1));
        // Gaps of all lengths around the time that a command takes.
        for (let spin = i % 400; spin > 0; spin--);
        queue.enqueue(step.launch({ word, factor: 1, term: 1 }, 1));
        await queue.synchronize();
      }
      expect(rig.words(word, 1)[0]).to.equal(2 * rounds);
    });

    it("reports a kernel that fails, and goes on", async () => {
      const { queue } = rig;
      const word = rig.place(4);
      queue.enqueue(trap.launch({}, 3));
      queue.enqueue(step.launch({ word, factor: 1, term: 5 }, 1));
      await queue.synchronize();
      expect(rig.words(word, 1)[0]).to.equal(5);
      expect(rig.errors).to.have.length(1);
      expect(rig.errors[0]).to.include({ code: "DEVICE_ERROR" });
      expect(rig.errors[0]!.message).to.match(/kernel trap failed: .*unreachable/);
      queue.enqueue(trap.launch({}, 1));
      await queue.synchronize();
      expect(rig.errors).to.have.length(2);
    });

    it("is lost when a worker dies, and rejects what is pending", async () => {
      const { queue, handles } = rig;
      const word = rig.place(4);
      queue.enqueue(rig.gate().launch);
      const pending = [queue.synchronize(), queue.read(new Uint8Array(4), word)].map(rejection);
      // From below, as a crash would come.
      for (const handle of handles) await handle.kill();
      for (const error of await Promise.all(pending)) expect(error.code).to.equal("DEVICE_LOST");
      expect(rig.lost).to.have.length(1);
      expect((await rejection(queue.synchronize())).code).to.equal("DEVICE_LOST");
    });

    it("closes at once in the middle of work", async () => {
      const { queue } = rig;
      // Work without an end: nobody waits for it.
      for (let i = 0; i < 1000; i++) queue.enqueue(rig.gate(4).launch);
      const pending = rejection(queue.synchronize());
      await queue.close();
      expect((await pending).code).to.equal("DISPOSED");
      expect(rig.lost).to.deep.equal([]);
    });
  });
}

describe("InlineQueue", () => {
  it("executes commands at once, reports one that fails, and goes on", async () => {
    const limits = { initialPages: 1, maximumPages: 1, shared: false };
    const kernels = new KernelLibrary([step, trap], limits, { relaxedSimd: false });
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1 });
    const errors: BackendError[] = [];
    const events = { error: (error: BackendError) => errors.push(error), lost: () => {} };
    const heap = new Heap(memory, 8192 + 64, 65536);
    const queue = new InlineQueue(kernels, memory, heap, 4096, events);
    const word = 8192;
    queue.write(word, new Uint8Array([5, 0, 0, 0]));
    queue.enqueue(trap.launch({}, 2));
    queue.enqueue(step.launch({ word, factor: 2, term: 1 }, 1));
    expect(new Uint32Array(memory.buffer)[word / 4]).to.equal(11);
    expect(errors).to.have.length(1);
    expect(errors[0]).to.include({ code: "DEVICE_ERROR" });
    const result = new Uint8Array(4);
    await queue.read(result, word);
    expect([...result]).to.deep.equal([11, 0, 0, 0]);
  });
});

describe("ThreadedQueue in a full memory", () => {
  it("does not stage writes in memory that commands still use", async () => {
    const rig = await openRig(1, { stagingBytes: 4096, pages: 8 });
    const { queue, heap } = rig;
    const place = rig.place(1000);
    const { launch, open } = rig.gate();
    // All the memory there is, filled by a command that comes late, and freed before.
    const all = heap.allocate(heap.largestAllocation - 64 - heap.usedBytes);
    queue.enqueue(launch);
    const memory = { byteOffset: all.address, byteLength: 65536 };
    queue.enqueue(planFill({ memory, byteOffset: 0, byteLength: 65536 }, 0xeeeeeeee));
    queue.release(all);
    for (let i = 0; i < 20; i++) queue.write(place, new Uint8Array(1000).fill(i));
    open();
    await queue.synchronize();
    const bytes = new Uint8Array(rig.memory.buffer, place, 1000);
    expect(bytes.every((byte) => byte === 19)).to.equal(true);
    await queue.close();
  });

  it("still writes and reads in order", async () => {
    const rig = await openRig(1, { pages: 16 });
    const { queue, heap } = rig;
    const word = rig.place(4);
    const { launch, open } = rig.gate();
    // Nothing is left for staging.
    for (let bytes = 65536; bytes >= 64; bytes /= 2) {
      try {
        for (;;) heap.allocate(bytes);
      } catch {}
    }
    const results: Uint32Array[] = [];
    const reads: Promise<void>[] = [];
    queue.enqueue(launch);
    for (let i = 0; i < 700; i++) {
      queue.write(word, new Uint8Array(new Uint32Array([10 * i]).buffer));
      queue.enqueue(step.launch({ word, factor: 1, term: 1 }, 1));
      const result = new Uint32Array(1);
      results.push(result);
      reads.push(queue.read(new Uint8Array(result.buffer), word));
    }
    open();
    await Promise.all(reads);
    await queue.synchronize();
    expect(results.map((result) => result[0])).to.deep.equal(results.map((_, i) => 10 * i + 1));
    await queue.close();
  });
});
