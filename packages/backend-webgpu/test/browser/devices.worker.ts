import { assert } from "chai";
import { describeDevices } from "./support/devices.js";

describeDevices("a worker");

describe("Workers with a backend on WebGPU", () => {
  interface Answer {
    readonly result: string;
    readonly memory: { readonly liveAllocations: number; readonly reservedBytes: number };
  }

  async function ask(dispose: boolean): Promise<Answer> {
    const worker = new Worker(new URL("./support/multiplier.js", import.meta.url), { type: "module" });
    try {
      return await new Promise<Answer>((answered, failed) => {
        worker.onmessage = ({ data }: MessageEvent<Answer>) => answered(data);
        worker.onerror = ({ message }) => failed(new Error(message));
        worker.postMessage({ dispose });
      });
    } finally {
      worker.terminate();
    }
  }

  // Were anything held by a worker that is gone, devices would run out or the browser would go down. Each loads all
  // modules anew, so there are few.
  it("can be ended one after the other, with their backends disposed of or not", async () => {
    for (let round = 0; round < 4; round++) {
      const { result, memory } = await ask(round % 2 === 0);
      assert.equal(result, "19 22 43 50");
      assert.equal(memory.liveAllocations, 0);
      if (round % 2 === 0) assert.equal(memory.reservedBytes, 0);
    }
  });
});
