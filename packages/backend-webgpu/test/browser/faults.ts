import { createWebGpuBackend, listAdapters } from "@backplane/backend-webgpu";
import { BackendError } from "@backplane/core";
import { assert } from "chai";

const STORAGE_AND_COPY = 0x80 | 0x04 | 0x08;

async function rejection(promise: Promise<unknown>): Promise<BackendError> {
  const error = await promise.then(
    () => assert.fail("the promise was fulfilled"),
    (reason: unknown) => reason,
  );
  assert.instanceOf(error, BackendError);
  return error as BackendError;
}

describe("WebGPU faults in a page", () => {
  it("name the operation, and keep apart from those of others on a device that is given", async () => {
    const given = await (await navigator.gpu.requestAdapter())!.requestDevice();
    const theirs: string[] = [];
    given.addEventListener("uncapturederror", (event) => {
      event.preventDefault();
      theirs.push(event.error.message);
    });
    const backend = createWebGpuBackend({ device: given });
    await backend.init();
    const ours: BackendError[] = [];
    backend.onError((error) => ours.push(error));
    given.createBuffer({ label: "of theirs", size: 4, usage: 0x80 | 0x01 });
    backend.fill(backend.alloc(64), 1, 16);
    await backend.synchronize();
    assert.deepEqual(ours, []);
    assert.lengthOf(theirs, 1);
    const buffer = given.createBuffer({ label: "doomed", size: 64, usage: STORAGE_AND_COPY });
    const handle = backend.importBuffer(buffer);
    buffer.destroy();
    given.pushErrorScope("validation");
    backend.unary({ kind: "neg", n: 16, input: handle, output: handle });
    const error = await rejection(backend.synchronize());
    assert.isNull(await given.popErrorScope());
    assert.equal(error.operation, "unary");
    assert.match(error.message, /^unary: the device reported: .*doomed/s);
    assert.lengthOf(theirs, 1);
    await backend.dispose();
    given.destroy();
  });

  it("are over with a fresh device", async () => {
    const backend = createWebGpuBackend();
    await backend.init();
    backend.fill(backend.alloc(64), 1, 16);
    await backend.loseDevice();
    assert.equal((await rejection(backend.synchronize())).code, "DEVICE_LOST");
    await backend.init();
    const handle = backend.alloc(16);
    backend.fill(handle, 7, 4);
    const results = new Float32Array(4);
    await backend.copyDtoH(results, handle);
    assert.deepEqual([...results], [7, 7, 7, 7]);
    await backend.dispose();
  });

  it("do not come from listing adapters", async () => {
    const adapters = await listAdapters();
    assert.isNotEmpty(adapters);
    for (const { device, limits } of adapters) {
      assert.isNotEmpty(device.name);
      assert.isAtLeast(limits.maxBufferSize, 2 ** 28);
    }
  });
});
