import { expect } from "chai";
import { Heap } from "#src/heap.js";
import { KernelLibrary } from "#src/kernels/library.js";
import { controlBytes } from "#src/queue/protocol.js";
import { ThreadedQueue } from "#src/queue/threaded.js";
import { spawnWorker } from "#src/queue/workers.js";
import { openRig, rejection, rotate, share, step } from "./queue-rig.js";

describe("ThreadedQueue while its workers start", () => {
  it("opens with one worker, and starts the others when there is something to share", async () => {
    const { queue, handles, place, words } = await openRig(3, { allUp: false });
    const word = place(4);
    for (let i = 0; i < 100; i++) queue.enqueue(step.launch({ word, factor: 1, term: 1 }, 1));
    await queue.synchronize();
    expect(handles).to.have.length(1);
    const count = 50;
    const [source, target] = [place(4 * count), place(4 * count)];
    // Soon over, and whatever takes long cannot be shared.
    queue.enqueue(rotate.launch({ source: target, target: source, count }, count));
    await queue.synchronize();
    queue.enqueue({ ...share(word), chunks: 1, helpers: 1 });
    await queue.synchronize();
    expect(handles).to.have.length(1);
    queue.enqueue(share(word));
    queue.enqueue(rotate.launch({ source, target, count }, count));
    await queue.synchronize();
    expect(handles).to.have.length(3);
    expect([...words(target, count)]).to.deep.equal(new Array(count).fill(2));
    await queue.close();
  });

  it("starts nothing when it is closed before", async () => {
    const { queue, handles, place } = await openRig(2, { allUp: false });
    queue.enqueue(share(place(4)));
    await queue.close();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(handles).to.have.length(1);
  });

  it("is lost when a worker that joins in late does not come up", async () => {
    const { queue, handles, lost, place } = await openRig(2, { allUp: false });
    queue.enqueue(share(place(4)));
    while (handles.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
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
