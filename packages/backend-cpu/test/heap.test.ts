import { BackendError } from "@backplane/core";
import { expect } from "chai";
import { type Allocation, Heap } from "#src/heap.js";

const page = 65536;

function heapOf(pages: number, base = 100): { heap: Heap; memory: WebAssembly.Memory } {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: pages });
  return { heap: new Heap(memory, base, pages * page), memory };
}

/** The same numbers every time. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

interface Piece {
  readonly allocation: Allocation;
  /** In granules of 64 bytes. */
  readonly first: number;
  readonly size: number;
}

/** Whether a piece reaches over a place that is `offset` modulo `period`. */
function covers({ first, size }: Piece, period: number, offset: number): boolean {
  return (((offset - first) % period) + period) % period < size;
}

/**
 * The most that an allocator which cannot move blocks may be driven to spread: sizes double from one granule
 * to 2^powers; before each, all is freed but the blocks that lie in the way of the next size (Robson, "An
 * estimate of the store size necessary for dynamic storage allocation", Journal of the ACM 18, 1971). Answers
 * how far up blocks were placed, over what was live at most.
 */
function spread(heap: Heap, live: number, powers: number): number {
  let pieces: readonly Piece[] = [];
  let [offset, end] = [0, 0];
  for (let power = 0; power <= powers; power++) {
    const size = 2 ** power;
    const gain = (place: number) =>
      pieces.reduce((sum, piece) => sum + (covers(piece, size, place) ? size - piece.size : 0), 0);
    if (gain(offset + size / 2) > gain(offset)) offset += size / 2;
    for (const piece of pieces) if (!covers(piece, size, offset)) heap.release(piece.allocation);
    const kept = pieces.filter((piece) => covers(piece, size, offset));
    let used = kept.reduce((sum, piece) => sum + piece.size, 0);
    for (; used + size <= live; used += size) {
      const allocation = heap.allocate(64 * size);
      kept.push({ allocation, first: allocation.address / 64, size });
      end = Math.max(end, allocation.address / 64 + size);
    }
    pieces = kept;
  }
  return end / live;
}

describe("Heap", () => {
  it("counts what is free, and how often the memory had to grow", () => {
    const { heap, memory } = heapOf(100, 128);
    const free = () => memory.buffer.byteLength - 128 - 64 - heap.usedBytes;
    expect([heap.allocations, heap.growths, heap.freeBytes]).to.deep.equal([0, 0, free()]);
    const small = heap.allocate(1000);
    expect([heap.allocations, heap.growths, heap.freeBytes]).to.deep.equal([1, 0, free()]);
    heap.release(heap.allocate(5 * page));
    expect([heap.allocations, heap.growths, heap.freeBytes]).to.deep.equal([2, 1, free()]);
    heap.release(heap.allocate(5 * page));
    heap.release(small);
    expect([heap.allocations, heap.growths, heap.freeBytes]).to.deep.equal([3, 1, free()]);
    expect(() => heap.allocate(200 * page)).to.throw(BackendError);
    expect(heap.allocations).to.equal(3);
  });

  it("spreads under Robson's adversary no further than every allocator must", () => {
    for (const [live, powers] of [
      [2 ** 14, 8],
      [2 ** 16, 10],
    ] as const) {
      const { heap } = heapOf(4096, 64);
      const least = powers / 2 + 1;
      const reached = spread(heap, live, powers);
      expect(reached).to.be.greaterThan(0.75 * least);
      expect(reached).to.be.lessThan(1.01 * least);
    }
  });

  it("keeps blocks apart, aligned and inside, through a long adversarial trace", () => {
    const random = randomNumbers(7);
    const { heap, memory } = heapOf(256);
    const live: { allocation: Allocation; address: number; bytes: number }[] = [];
    let refused = 0;
    for (let step = 0; step < 20000; step++) {
      // Phases of growing and shrinking, so that memory fills up and falls apart.
      const grows = random(100) < (Math.floor(step / 2000) % 2 === 0 ? 70 : 35);
      if (grows || live.length === 0) {
        const bytes = 1 + random(2 ** (1 + random(20)));
        try {
          const allocation = heap.allocate(bytes);
          const { address } = allocation;
          expect(address % 64).to.equal(0);
          expect(address).to.be.at.least(100);
          expect(address + bytes).to.be.at.most(memory.buffer.byteLength - 64);
          live.push({ allocation, address, bytes });
        } catch (error) {
          expect(error).to.be.instanceOf(BackendError).with.property("code", "OUT_OF_MEMORY");
          refused++;
          for (let i = 0; i < 10 && live.length > 0; i++)
            heap.release(live.splice(random(live.length), 1)[0]!.allocation);
        }
      } else {
        heap.release(live.splice(random(live.length), 1)[0]!.allocation);
      }
      if (step % 500 === 0) {
        const sorted = live.toSorted((a, b) => a.address - b.address);
        for (let i = 1; i < sorted.length; i++)
          expect(sorted[i - 1]!.address + sorted[i - 1]!.bytes).to.be.at.most(sorted[i]!.address);
        const rounded = live.reduce((sum, { bytes }) => sum + Math.ceil(bytes / 64) * 64, 0);
        expect(heap.usedBytes).to.equal(rounded);
        expect(heap.usedBlocks).to.equal(live.length);
      }
    }
    expect(refused).to.be.greaterThan(0);
    for (const { allocation } of live) heap.release(allocation);
    expect(heap.usedBytes).to.equal(0);
    // Everything has merged: the largest block that there can be is free again.
    heap.release(heap.allocate(heap.largestAllocation));
  });

  it("hands out memory that is not marked dirty only where it was never handed out", () => {
    const random = randomNumbers(3);
    const { heap, memory } = heapOf(64);
    const live: Allocation[] = [];
    let clean = 0;
    for (let step = 0; step < 3000; step++) {
      if (random(2) === 0 && live.length > 0) {
        heap.release(live.splice(random(live.length), 1)[0]!);
        continue;
      }
      if (heap.usedBytes > 40 * page) continue;
      const bytes = 64 * (1 + random(300));
      const allocation = heap.allocate(bytes);
      const { address, dirtyBytes } = allocation;
      const contents = new Uint8Array(memory.buffer, address, bytes);
      expect(contents.subarray(dirtyBytes).every((byte) => byte === 0)).to.equal(true);
      if (dirtyBytes < bytes) clean++;
      contents.fill(1);
      live.push(allocation);
    }
    expect(clean).to.be.greaterThan(10);
  });

  it("stays as large as it was through 100,000 allocations that are freed again", () => {
    const { heap, memory } = heapOf(1024);
    const random = randomNumbers(11);
    const live: Allocation[] = [];
    let size = 0;
    for (let i = 0; i < 100000; i++) {
      live.push(heap.allocate(1 + random(4096)));
      if (live.length > 50) heap.release(live.splice(random(live.length), 1)[0]!);
      if (i === 5000) size = memory.buffer.byteLength;
    }
    expect(memory.buffer.byteLength).to.equal(size);
  });

  it("takes constant time in a heap of many pieces", () => {
    const { heap } = heapOf(4096);
    const blocks = Array.from({ length: 100000 }, () => heap.allocate(64));
    for (let i = 0; i < blocks.length; i += 2) heap.release(blocks[i]!);
    // Processor time, which does not depend on what else the machine does. 50,000 free pieces are all
    // too small; looking at each would take a hundred times as long.
    const before = process.cpuUsage();
    for (let i = 0; i < 100000; i++) heap.release(heap.allocate(128 + 64 * (i % 50)));
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1000).to.be.lessThan(1000);
  });

  it("says what was live when there is no memory left", () => {
    const { heap } = heapOf(2);
    heap.allocate(60000);
    heap.allocate(1000);
    expect(() => heap.allocate(100000))
      .to.throw(BackendError, /100000 bytes asked for; 2 live blocks hold 61056 bytes of at most 131072/)
      .with.property("code", "OUT_OF_MEMORY");
    // And goes on.
    heap.allocate(60000);
  });

  it("refuses to take back what it did not hand out", () => {
    const { heap } = heapOf(2);
    const allocation = heap.allocate(10);
    heap.release(allocation);
    expect(() => heap.release(allocation)).to.throw(RangeError);
    expect(() => heap.release({ address: 64, bytes: 64, dirtyBytes: 0 })).to.throw(RangeError);
    // Not even when its place is in use again.
    heap.allocate(10);
    expect(() => heap.release(allocation)).to.throw(RangeError);
  });
});
