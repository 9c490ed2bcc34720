import { expect } from "chai";
import { ask, controlBytes, initialise, ringSlots, waitFor, words } from "#src/queue/protocol.js";
import { runProgram } from "./programs.js";
import { openRig, type Rig, rejection, step, trap } from "./queue-rig.js";

for (const threads of [1, 2])
  describe(`ThreadedQueue.readSync with ${threads} worker${threads === 1 ? "" : "s"}`, () => {
    let rig: Rig;
    beforeEach(async () => {
      rig = await openRig(threads);
    });
    afterEach(() => rig.queue.close());

    const wordNow = (address: number): number => {
      const bytes = new Uint8Array(4);
      rig.queue.readSync(bytes, address);
      return new Uint32Array(bytes.buffer)[0]!;
    };

    it("waits for all commands, far more than the ring holds, and for writes among them", () => {
      const { queue } = rig;
      const word = rig.place(4);
      let expected = 0;
      for (const count of [0, 1, 3, ringSlots, 5 * ringSlots + 1])
        for (let i = 0; i < count; i++) {
          // Bytes that wait for their turn.
          if (i % 100 === 50) {
            expected = i;
            queue.write(word, new Uint8Array(Uint32Array.of(i).buffer));
          }
          queue.enqueue(step.launch({ word, factor: 31, term: i }, 1));
          expected = (Math.imul(expected, 31) + i) >>> 0;
          if (i % 700 === 699 || i === count - 1) expect(wordNow(word)).to.equal(expected);
        }
    });

    it("comes in turn with reads that are awaited, whoever is the first to be done", async () => {
      const { queue } = rig;
      const word = rig.place(4);
      const reads: { readonly bytes: Uint8Array<ArrayBuffer>; expected: number; done: Promise<void> }[] = [];
      let value = 0;
      for (let i = 0; i < 3000; i++) {
        queue.enqueue(step.launch({ word, factor: 1, term: 1 }, 1));
        value++;
        if (i % 3 === 0) {
          const bytes = new Uint8Array(4);
          reads.push({ bytes, expected: value, done: queue.read(bytes, word) });
        }
        if (i % 7 === 0) expect(wordNow(word)).to.equal(value);
        if (i % 501 === 0) await queue.synchronize();
      }
      for (const { bytes, expected, done } of reads) {
        await done;
        expect(new Uint32Array(bytes.buffer)[0]).to.equal(expected);
      }
    });

    it("has reported the fault of a command before it returns", () => {
      const { queue, errors } = rig;
      const word = rig.place(4);
      for (let i = 1; i <= 50; i++) {
        for (let j = 0; j < 100; j++) queue.enqueue(step.launch({ word, factor: 1, term: 1 }, 1));
        queue.enqueue(trap.launch({}, 1));
        wordNow(word);
        expect(errors).to.have.length(i);
      }
    });

    it("runs a small command on this thread while nothing is under way, and behind the others otherwise", async () => {
      const { queue, errors } = rig;
      const word = rig.place(4);
      const small = (term: number) => step.launch({ word, factor: 31, term }, 1, 100);
      const published = Atomics.load(rig.control, words.published);
      queue.enqueue(small(1));
      queue.enqueue(small(2));
      expect(rig.words(word, 1)[0]).to.equal(33);
      queue.enqueue(trap.launch({}, 1, 100));
      expect(errors.map(({ message }) => message)).to.have.length(1);
      expect(errors[0]!.message).to.match(/^kernel trap failed: /);
      expect(Atomics.load(rig.control, words.published)).to.equal(published);

      const gate = rig.gate();
      queue.enqueue(gate.launch);
      queue.enqueue(small(3));
      const bytes = new Uint8Array(4);
      const read = queue.read(bytes, word);
      queue.enqueue(small(4));
      expect(rig.words(word, 1)[0]).to.equal(33);
      gate.open();
      await read;
      expect(new Uint32Array(bytes.buffer)[0]).to.equal(33 * 31 + 3);
      expect(wordNow(word)).to.equal((33 * 31 + 3) * 31 + 4);
    });

    it("hands small commands over if this thread may not compile their kernels", () => {
      const { queue, errors } = rig;
      const word = rig.place(4);
      const { Module } = WebAssembly;
      WebAssembly.Module = class {
        constructor() {
          throw new RangeError("WebAssembly.Compile is disallowed on the main thread");
        }
      } as unknown as typeof Module;
      try {
        queue.enqueue(step.launch({ word, factor: 1, term: 5 }, 1, 100));
      } finally {
        WebAssembly.Module = Module;
      }
      queue.enqueue(step.launch({ word, factor: 3, term: 1 }, 1, 100));
      expect(wordNow(word)).to.equal(16);
      expect(errors).to.deep.equal([]);
    });

    it("keeps the order of small and large commands, and of reads between them", async () => {
      const { queue } = rig;
      const word = rig.place(4);
      const reads: { readonly bytes: Uint8Array<ArrayBuffer>; expected: number; done: Promise<void> }[] = [];
      let value = 0;
      for (let i = 0; i < 4000; i++) {
        queue.enqueue(step.launch({ word, factor: 31, term: i }, 1, i % 5 < 3 ? 100 : 1e6));
        value = (Math.imul(value, 31) + i) >>> 0;
        if (i % 7 === 0) {
          const bytes = new Uint8Array(4);
          reads.push({ bytes, expected: value, done: queue.read(bytes, word) });
        }
        if (i % 11 === 0) expect(wordNow(word)).to.equal(value);
        if (i % 401 === 0) await queue.synchronize();
      }
      for (const { bytes, expected, done } of reads) {
        await done;
        expect(new Uint32Array(bytes.buffer)[0]).to.equal(expected);
      }
    });

    it("throws when the queue was closed, or its workers are gone", async () => {
      const word = rig.place(4);
      for (const handle of rig.handles) await handle.kill();
      const lost = await rejection(Promise.resolve().then(() => wordNow(word)));
      expect(lost.code).to.equal("DEVICE_LOST");
      const other = await openRig(threads);
      await other.queue.close();
      const read = () => other.queue.readSync(new Uint8Array(4), 0);
      expect(read).to.throw().with.property("code", "DISPOSED");
    });
  });

describe("A caller that only ever reads at once", () => {
  it("gets all workers started, though it never returns to the event loop", async () => {
    const { queue, handles, place, gate } = await openRig(3, { patience: "own" });
    const word = place(4);
    queue.readSync(new Uint8Array(4), word);
    expect(handles).to.have.length(1);
    const { launch, open } = gate(2);
    handles.push = (...more) => {
      const count = Array.prototype.push.apply(handles, more);
      if (count === 3) open();
      return count;
    };
    queue.enqueue(launch);
    queue.readSync(new Uint8Array(4), word);
    expect(handles).to.have.length(3);
    await queue.close();
  });

  for (const threads of [0, 2])
    it(`lets the program end by itself, with ${threads} threads`, async () => {
      const { code, output } = await runProgram(`
        const backend = createCpuBackend({ threads: ${threads} });
        await backend.init();
        const n = 300;
        const a = backend.alloc(4 * n * n), c = backend.alloc(4 * n * n);
        backend.fill(a, 1, n * n);
        const result = new Float32Array(1), awaited = new Float32Array(1);
        for (let i = 0; i < 3; i++) {
          backend.gemm({ m: n, n, k: n, a, b: a, c });
          // Nobody awaits it, and what comes at once is what settles it.
          backend.copyDtoH(awaited, c);
          backend.copyDtoHSync(result, c);
        }
        console.log(backend.capabilities.synchronousReads, result[0], awaited[0]);`);
      expect({ code, output }).to.deep.equal({ code: 0, output: "true 300 300\n" });
    });
});

describe("waitFor", () => {
  const opened = (): Int32Array => {
    const control = new Int32Array(new SharedArrayBuffer(controlBytes));
    initialise(control, 2);
    return control;
  };
  const completed = (control: Int32Array): number => Atomics.load(control, words.completed);

  it("returns at once where there is nothing to wait for", () => {
    const control = opened();
    expect(waitFor(control, completed(control), Number.POSITIVE_INFINITY)).to.equal(true);
  });

  it("gives up after some time, says so, and leaves no question open", () => {
    const control = opened();
    ask(control, completed(control) + 5);
    expect(waitFor(control, completed(control) + 1, 1)).to.equal(false);
    expect(control[words.asked]).to.equal(0);
  });
});
