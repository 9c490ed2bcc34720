import { expect } from "chai";
import { Heap } from "#src/heap.js";
import { KernelLibrary } from "#src/kernels/library.js";
import { controlBytes } from "#src/queue/protocol.js";
import { ThreadedQueue } from "#src/queue/threaded.js";
import { spawnWorker } from "#src/queue/workers.js";
import { openRig, rejection, rotate, step } from "./queue-rig.js";

/** A patience that ends when it is told to. */
function untilTold(): { readonly patience: () => Promise<void>; asked: number; end(): Promise<void> } {
  let end = () => {};
  const told = {
    asked: 0,
    patience: () =>
      new Promise<void>((resolve) => {
        told.asked++;
        end = resolve;
      }),
    /** What follows from it is done when this resolves. */
    end: async () => {
      end();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
  return told;
}

describe("ThreadedQueue while its workers start", () => {
  it("opens with one worker, and starts the others when there is something to share", async () => {
    const told = untilTold();
    const { queue, handles, gate, place, words } = await openRig(3, told);
    const word = place(4);
    for (let i = 0; i < 100; i++) queue.enqueue(step.launch({ word, factor: 1, term: 1 }, 1));
    await queue.synchronize();
    const long = gate();
    queue.enqueue(long.launch);
    expect(told.asked, "whatever takes long cannot be shared").to.equal(0);
    long.open();
    await queue.synchronize();
    const count = 50;
    const [source, target] = [place(4 * count), place(4 * count)];
    queue.enqueue(rotate.launch({ source: target, target: source, count }, count));
    await queue.synchronize();
    expect(told.asked).to.equal(1);
    await told.end();
    expect(handles, "it is soon over").to.have.length(1);
    const shared = gate(2);
    queue.enqueue(shared.launch);
    queue.enqueue(rotate.launch({ source, target, count }, count));
    expect(told.asked, "once for all that is enqueued meanwhile").to.equal(2);
    await told.end();
    expect(handles).to.have.length(3);
    shared.open();
    await queue.synchronize();
    expect([...words(target, count)]).to.deep.equal(new Array(count).fill(2));
    await queue.close();
  });

  it("loses patience by itself", async () => {
    const { queue, handles, gate } = await openRig(2, { patience: "own" });
    const { launch, open } = gate(2);
    queue.enqueue(launch);
    while (handles.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
    open();
    await queue.close();
  });

  it("starts nothing when it is closed before", async () => {
    const told = untilTold();
    const { queue, handles, gate } = await openRig(2, told);
    queue.enqueue(gate(2).launch);
    await queue.close();
    await told.end();
    expect(handles).to.have.length(1);
  });

  it("is lost when a worker that joins in late does not come up", async () => {
    const told = untilTold();
    const { queue, handles, lost, gate } = await openRig(2, told);
    queue.enqueue(gate(2).launch);
    await told.end();
    expect(handles).to.have.length(2);
    await handles[1]!.kill();
    expect(lost).to.have.length(1);
    expect((await rejection(queue.synchronize())).code).to.equal("DEVICE_LOST");
    await queue.close();
  });

  it("ends its worker when what is done meanwhile fails", async () => {
    let ended = false;
    const limits = { initialPages: 4, maximumPages: 16, shared: true };
    const memory = new WebAssembly.Memory({ initial: 4, maximum: 16, shared: true });
    const opening = ThreadedQueue.open({
      kernels: new KernelLibrary([step], limits, { relaxedSimd: false }),
      meanwhile: async () => {
        throw new Error("it does not do");
      },
      memory,
      heap: new Heap(memory, controlBytes, 16 * 65536),
      scratch: [0, 0],
      events: { error: () => {}, lost: () => {} },
      stagingBytes: 65536,
      spawn(worker, listeners) {
        const handle = spawnWorker(worker, listeners);
        return {
          ...handle,
          async terminate() {
            await handle.terminate();
            ended = true;
          },
        };
      },
    });
    const error = await opening.then(() => undefined).catch((reason: unknown) => reason);
    expect(error).to.include({ message: "it does not do" });
    expect(ended).to.equal(true);
  });
});
