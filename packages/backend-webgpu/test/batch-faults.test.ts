import { createWebGpuBackend, type WebGpuBackend } from "@backplane/backend-webgpu";
import { assert } from "chai";
import { IMMEDIATE_FEATURE } from "#src/program/program.js";
import { batchLimits } from "#src/runtime/policy.js";
import { doomed, foreignDevice, rejection, withoutTime } from "./support.js";

/** Dispatches of a full batch, and of the longer ones after it in a recording. */
const { dispatches: FULL, replayed: LONGER } = batchLimits;

describe("webgpu faults of one batch", () => {
  let backend: WebGpuBackend;

  beforeEach(async () => {
    backend = createWebGpuBackend();
    await backend.init();
  });

  afterEach(() => backend.dispose());

  it("name the operations of that batch of a recording, and no others", async () => {
    const [bad, good, sum] = [doomed(backend), backend.alloc(64), backend.alloc(4)];
    const times = (count: number, call: () => void): void => {
      for (let i = 0; i < count; i++) call();
    };
    const binary = () => backend.binary({ kind: "add", n: 16, a: good, b: { scalar: 1 }, output: good });
    const reduce = () => backend.reduce({ kind: "sum", shape: [16], input: good, output: sum });
    const faulty = () => backend.unary({ kind: "exp", n: 16, input: bad, output: bad });
    const heard: string[] = [];
    backend.onError(({ message }) => heard.push(message.replace(/:.*/s, "")));
    // In the first batch, and in one after it.
    for (const at of [0, FULL]) {
      const recording = backend.record(() => {
        times(at, reduce);
        times(FULL - 1, binary);
        faulty();
        times(LONGER, binary);
        times(LONGER, reduce);
      });
      withoutTime(() => recording.run());
      await rejection(backend.synchronize());
      recording.dispose();
    }
    assert.deepEqual(heard, ["one of binary, unary", "one of binary, unary"]);
  });

  it("name all operations of the batch that a read submits", async () => {
    const bad = doomed(backend);
    backend.unary({ kind: "exp", n: 16, input: bad, output: bad });
    const error = await rejection(backend.copyDtoH(new Uint8Array(64), backend.alloc(64)));
    assert.match(error.message, /^one of unary, copyDtoH: the device reported: .*doomed/s);
    assert.isUndefined(error.operation);
  });
});

describe("webgpu parameters that the device failed to write", () => {
  it("are written again", async () => {
    const given = await foreignDevice();
    const { queue } = given;
    const writeBuffer = queue.writeBuffer.bind(queue);
    let isFaulty = false;
    queue.writeBuffer = (buffer: GPUBuffer, offset: number, ...rest: [GPUAllowSharedBufferSource]) =>
      writeBuffer(buffer, isFaulty && buffer.label === "parameters" ? buffer.size : offset, ...rest);
    Object.defineProperty(given, "queue", { value: queue });
    const backend = createWebGpuBackend({ device: given, disableFeatures: [IMMEDIATE_FEATURE] });
    await backend.init();
    const handle = backend.alloc(64);
    const added = async (): Promise<number> => {
      backend.copyHtoD(handle, new Float32Array(16));
      await backend.synchronize();
      backend.binary({ kind: "add", n: 16, a: handle, b: { scalar: 7 }, output: handle });
      const sums = new Float32Array(16);
      await backend.copyDtoH(sums, handle);
      return sums[15]!;
    };
    isFaulty = true;
    assert.equal((await rejection(added())).code, "DEVICE_ERROR");
    isFaulty = false;
    assert.equal(await added(), 7);
    await backend.dispose();
    given.destroy();
  });
});
