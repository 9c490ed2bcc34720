import { expect } from "chai";
import type { Launch } from "#src/kernels/kernel.js";
import { planFill } from "#src/kernels/memory/memory.js";
import { SharedList } from "#src/queue/list.js";
import { ringSlots, words } from "#src/queue/protocol.js";
import { openRig, type Rig, rotate, step, trap } from "./queue-rig.js";

for (const threads of [1, 2])
  describe(`A list of commands with ${threads} worker${threads === 1 ? "" : "s"}`, () => {
    let rig: Rig;
    let list: SharedList;
    beforeEach(async () => {
      rig = await openRig(threads);
      list = new SharedList(rig.queue, rig.heap, rig.kernels);
    });
    afterEach(() => rig.queue.close());

    /** A command that shows its place in the order. */
    const at = (word: number, term: number): Launch => step.launch({ word, factor: 31, term }, 1);

    it("is one command of the queue, however long, and keeps its order among others", async () => {
      const { queue, control } = rig;
      const word = rig.place(4);
      const length = 3 * ringSlots;
      for (let i = 0; i < length; i++) list.set(i, [at(word, i)]);
      let expected = 0;
      const follow = (term: number) => {
        expected = (Math.imul(expected, 31) + term) >>> 0;
      };
      await queue.synchronize();
      const before = Atomics.load(control, words.published);
      for (let run = 0; run < 5; run++) {
        queue.enqueue(at(word, 7));
        follow(7);
        list.run();
        for (let i = 0; i < length; i++) follow(i);
      }
      await queue.synchronize();
      expect(rig.words(word, 1)[0]).to.equal(expected);
      // The commands were put in place with nothing under way, or by at most one more command.
      expect((Atomics.load(control, words.published) - before) | 0).to.be.within(10, 11);
    });

    it("finishes all chunks of one of its commands before the next starts", async () => {
      const { queue } = rig;
      const count = 50;
      const [one, other] = [rig.place(4 * count), rig.place(4 * count)];
      for (let i = 0; i < 400; i++) {
        const [source, target] = i % 2 === 0 ? [one, other] : [other, one];
        list.set(i, [rotate.launch({ source, target, count }, count)]);
      }
      for (let run = 0; run < 5; run++) list.run();
      await queue.synchronize();
      expect([...rig.words(one, count)]).to.deep.equal(new Array(count).fill(2000));
    });

    it("changes while earlier runs wait, and they carry out what it was", async () => {
      const { queue } = rig;
      const word = rig.place(4);
      const gate = rig.gate();
      queue.enqueue(gate.launch);
      const set = (place: number, terms: readonly number[]) => {
        list.set(
          place,
          terms.map((term) => at(word, term)),
        );
      };
      const parts: number[][] = [[1], [2, 3], [], [4]];
      let value = 0;
      const run = () => {
        list.run();
        for (const term of parts.flat()) value = (Math.imul(value, 31) + term) >>> 0;
      };
      for (const [place, terms] of parts.entries()) set(place, terms);
      run();
      for (const [place, terms] of [
        [1, [5, 6]],
        [0, [7]],
        [2, [8, 9, 10]],
        [1, []],
        [3, Array.from({ length: 700 }, (_, i) => i)],
        [3, [11]],
      ] as const) {
        parts[place] = [...terms];
        set(place, terms);
        run();
        run();
      }
      gate.open();
      await queue.synchronize();
      expect(rig.words(word, 1)[0]).to.equal(value);
    });

    it("is written where it changes, near places together", async () => {
      const { queue, control } = rig;
      const word = rig.place(4);
      const gate = rig.gate();
      const terms = Array.from({ length: 400 }, (_, i) => i);
      for (const [place, term] of terms.entries()) list.set(place, [at(word, term)]);
      list.run();
      await queue.synchronize();
      let value = 0;
      const follow = () => {
        for (const term of terms) value = (Math.imul(value, 31) + term) >>> 0;
      };
      follow();
      queue.enqueue(gate.launch);
      // Places up to 64 apart are near. Commands write them, for the queue is not empty.
      for (const [changed, writes] of [
        [[0, 1, 8, 399], 2],
        [[0, 70, 399], 3],
        [[200, 215], 1],
        [[399], 1],
      ] as const) {
        for (const place of changed) {
          terms[place]! += 1000;
          list.set(place, [at(word, terms[place]!)]);
        }
        const before = Atomics.load(control, words.published);
        list.run();
        expect((Atomics.load(control, words.published) - before) | 0, changed.join()).to.equal(writes + 1);
        follow();
      }
      gate.open();
      await queue.synchronize();
      expect(rig.words(word, 1)[0]).to.equal(value);
    });

    it("lies in memory that others used before, and gives it back", async () => {
      const { queue, heap } = rig;
      const word = rig.place(4);
      const { usedBytes } = heap;
      for (let round = 0; round < 50; round++) {
        // Commands under way still write to what the list gets.
        const block = heap.allocate(64 * 256);
        queue.enqueue(
          planFill(
            {
              memory: { byteOffset: block.address, byteLength: 64 * 256 },
              byteOffset: 0,
              byteLength: 64 * 256,
            },
            0xffffffff,
          ),
        );
        queue.release(block);
        const own = new SharedList(queue, heap, rig.kernels);
        for (let i = 0; i < 60; i++) own.set(i, [step.launch({ word, factor: 1, term: 1 }, 1)]);
        own.run();
        own.run();
        own.dispose();
      }
      await queue.synchronize();
      expect(rig.words(word, 1)[0]).to.equal(50 * 120);
      expect(heap.usedBytes).to.be.lessThan(usedBytes + 2 * 65536);
    });

    it("reports a command that fails, and carries out the rest", async () => {
      const word = rig.place(4);
      list.set(0, [at(word, 1)]);
      list.set(1, [trap.launch({}, 1)]);
      list.set(2, [at(word, 2)]);
      list.run();
      await rig.queue.synchronize();
      expect(rig.words(word, 1)[0]).to.equal(33);
      expect(rig.errors.map(({ message }) => message)).to.have.length(1);
      expect(rig.errors[0]!.message).to.match(/kernel trap failed/);
    });

    it("does nothing if it is empty", async () => {
      list.run();
      list.set(0, []);
      list.run();
      await rig.queue.synchronize();
      list.dispose();
    });
  });
