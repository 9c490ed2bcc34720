import { expect } from "chai";
import { Heap } from "#src/heap.js";
import { firstSequence } from "#src/queue/protocol.js";
import { StagingRing } from "#src/queue/staging.js";

describe("StagingRing", () => {
  it("never hands out bytes that a pending command has yet to read, and stays within its bounds", () => {
    let state = 5;
    const random = (below: number): number => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 16 });
    const heap = new Heap(memory, 0, 16 * 65536);
    const capacity = 4096;
    const ring = new StagingRing(heap, capacity);
    const pending: { address: number; bytes: number; sequence: number }[] = [];
    let completed = firstSequence;
    let accepted = firstSequence;
    let lowest = Number.POSITIVE_INFINITY;
    let highest = 0;
    let taken = 0;
    let refused = 0;
    for (let step = 0; step < 50_000; step++) {
      if (random(3) === 0 && completed !== accepted) completed = (completed + 1) | 0;
      if (random(500) === 0) completed = accepted;
      while (pending[0] !== undefined && ((completed - pending[0].sequence) | 0) >= 0) pending.shift();
      const bytes = 1 + random(random(2) === 0 ? 200 : 2300);
      const address = ring.take(bytes, completed, accepted);
      if (address === undefined) {
        refused++;
        continue;
      }
      taken++;
      for (const other of pending)
        expect(address + bytes <= other.address || other.address + other.bytes <= address).to.equal(true);
      accepted = (accepted + 1) | 0;
      ring.commit(accepted);
      pending.push({ address, bytes, sequence: accepted });
      lowest = Math.min(lowest, address);
      highest = Math.max(highest, address + bytes);
    }
    expect(highest - lowest).to.be.at.most(capacity);
    expect(taken).to.be.greaterThan(10_000);
    expect(refused).to.be.greaterThan(1000);
  });

  it("leaves large writes to others", () => {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 16 });
    const ring = new StagingRing(new Heap(memory, 0, 16 * 65536), 4096);
    expect(ring.take(2049, firstSequence, firstSequence)).to.equal(undefined);
    expect(ring.take(2048, firstSequence, firstSequence)).to.be.a("number");
  });
});
