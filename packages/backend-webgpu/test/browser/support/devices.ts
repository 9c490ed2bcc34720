import { createWebGpuBackend, webgpu } from "@backplane/backend-webgpu";
import { BackendError, type ComputeBackend } from "@backplane/core";
import { assert } from "chai";

/** Multiplies two small matrices on an open backend, and frees all that this took. */
export async function multiply(backend: ComputeBackend): Promise<string> {
  const [a, b, c] = [backend.alloc(16), backend.alloc(16), backend.alloc(16)];
  backend.copyHtoD(a, Float32Array.of(1, 2, 3, 4));
  backend.copyHtoD(b, Float32Array.of(5, 6, 7, 8));
  backend.gemm({ m: 2, n: 2, k: 2, a, b, c });
  const result = new Float32Array(4);
  await backend.copyDtoH(result, c);
  for (const handle of [a, b, c]) backend.free(handle);
  return result.join(" ");
}

const product = "19 22 43 50";

/** What holds in a window as well as in a worker; `where` is told apart in the titles of tests. */
export function describeDevices(where: string): void {
  describe(`WebGPU in ${where}`, () => {
    /** Devices that were opened during a test. */
    const opened: GPUDevice[] = [];
    const { requestDevice } = GPUAdapter.prototype;
    before(() => {
      GPUAdapter.prototype.requestDevice = async function (descriptor) {
        const device = await requestDevice.call(this, descriptor);
        opened.push(device);
        return device;
      };
    });
    afterEach(() => opened.splice(0));
    after(() => {
      GPUAdapter.prototype.requestDevice = requestDevice;
    });

    it("loads the package's side for browsers, and Dawn for Node.js never", async () => {
      const backend = createWebGpuBackend();
      await backend.init();
      assert.equal(await multiply(backend), product);
      await backend.dispose();
      const loaded = performance.getEntriesByType("resource").map(({ name }) => new URL(name).pathname);
      assert.isTrue(loaded.some((path) => path.endsWith("/backend-webgpu/dist/browser.js")));
      for (const path of loaded) {
        assert.notMatch(path, /\/backend-webgpu\/dist\/node\.js$/);
        assert.notMatch(path, /^\/vendor\/webgpu/);
      }
    });

    it("leaves nothing behind when it is disposed of", async () => {
      const backend = createWebGpuBackend();
      await backend.init();
      backend.alloc(1 << 20);
      assert.equal(await multiply(backend), product);
      assert.isAtLeast(backend.memory().reservedBytes, 1 << 20);
      await backend.dispose();
      assert.deepInclude(backend.memory(), { liveAllocations: 0, liveBytes: 0, reservedBytes: 0 });
      assert.lengthOf(opened, 1);
      assert.equal((await opened[0]!.lost).reason, "destroyed");
    });

    it("uses a device that it is given, and leaves it alive, with nothing on it", async () => {
      const adapter = await navigator.gpu.requestAdapter();
      const device = await adapter!.requestDevice();
      opened.splice(0);
      const buffers = liveBuffers(device);
      const probed = await webgpu({ device }).probe();
      assert.isTrue(probed.available);
      for (const round of ["first", "second"]) {
        const backend = createWebGpuBackend({ device });
        await backend.init();
        assert.equal(await multiply(backend), product, round);
        assert.isNotEmpty(buffers);
        await backend.dispose();
        assert.isEmpty(buffers, round);
      }
      assert.isEmpty(opened, "no device was opened beside it");
      const lost = await Promise.race([
        device.lost.then(() => true),
        device.queue.onSubmittedWorkDone().then(() => false),
      ]);
      assert.isFalse(lost);
      device.destroy();
    });

    it("says that there is no WebGPU where navigator.gpu is missing", async () => {
      await withGpu(undefined, async () => {
        await refuses(/^init: .*navigator\.gpu is missing/);
        const probed = await webgpu().probe();
        assert.isFalse(probed.available);
        assert.match((probed as { reason: string }).reason, /navigator\.gpu is missing/);
      });
      const backend = createWebGpuBackend();
      await backend.init();
      await backend.dispose();
    });

    it("says that there is no adapter where the browser finds none", async () => {
      await withGpu({ requestAdapter: async () => null }, () => refuses(/^init: .*finds no adapter/));
    });
  });
}

/** The buffers of a device that are made from now on and not destroyed yet. */
function liveBuffers(device: GPUDevice): ReadonlySet<GPUBuffer> {
  const live = new Set<GPUBuffer>();
  const createBuffer = device.createBuffer.bind(device);
  device.createBuffer = (descriptor) => {
    const buffer = createBuffer(descriptor);
    const destroy = buffer.destroy.bind(buffer);
    live.add(buffer);
    buffer.destroy = () => {
      live.delete(buffer);
      destroy();
    };
    return buffer;
  };
  return live;
}

async function refuses(message: RegExp): Promise<void> {
  try {
    await createWebGpuBackend().init();
  } catch (error) {
    assert.instanceOf(error, BackendError);
    assert.equal((error as BackendError).code, "UNSUPPORTED");
    assert.match((error as BackendError).message, message);
    return;
  }
  assert.fail("init did not throw");
}

/** Runs `body` as in a browser that has this in place of its WebGPU. */
async function withGpu(gpu: unknown, body: () => Promise<void>): Promise<void> {
  Object.defineProperty(navigator, "gpu", { value: gpu, configurable: true });
  try {
    await body();
  } finally {
    // What lies below, on the prototype, is the browser's own.
    delete (navigator as { gpu?: unknown }).gpu;
  }
}
