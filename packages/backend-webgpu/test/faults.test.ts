import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { BackendError, type Recording } from "@backplane/core";
import { assert } from "chai";
import { Guard } from "#src/runtime/guard.js";
import { type DeviceMemory, MemoryPool } from "#src/runtime/memory.js";
import {
  doomed,
  foreignDevice,
  hangMilliseconds,
  noise,
  rejection,
  TestDevice,
  withoutLimits,
  withoutTime,
} from "./support.js";

describe("webgpu faults", () => {
  it("name the operation that was being recorded", async () => {
    const backend = createWebGpuBackend();
    await backend.init();
    const heard: BackendError[] = [];
    backend.onError((error) => heard.push(error));
    const bad = doomed(backend);
    backend.unary({ kind: "exp", n: 16, input: bad, output: bad });
    const error = await rejection(backend.synchronize());
    assert.equal(error.code, "DEVICE_ERROR");
    assert.equal(error.operation, "unary");
    assert.match(error.message, /^unary: the device reported: .*doomed/s);
    assert.isNotEmpty(heard);
    const good = backend.alloc(64);
    // In one batch, however long it takes to record.
    withoutTime(() => {
      backend.fill(good, 1, 16);
      backend.unary({ kind: "exp", n: 16, input: bad, output: bad });
    });
    const several = await rejection(backend.synchronize());
    assert.isUndefined(several.operation);
    assert.match(several.message, /^one of fill, unary: the device reported/);
    // Nothing is left of it.
    backend.fill(good, 2, 16);
    await backend.synchronize();
    await backend.dispose();
  });

  it("of memory for a recording fail its runs only until there is memory", async () => {
    const backend = createWebGpuBackend();
    await backend.init();
    const n = 2 ** 16;
    const [input, output] = [backend.alloc(4 * n), backend.alloc(4 * n)];
    backend.copyHtoD(
      input,
      Float32Array.from({ length: n }, (_, i) => (i * 7919) % n),
    );
    const sorted = Float32Array.from({ length: n }, (_, i) => i);
    const run = async (step: Recording): Promise<Float32Array> => {
      const results = new Float32Array(n);
      step.run();
      await backend.copyDtoH(results, output);
      return results;
    };
    const isRefusing = refuseBuffers(backend.native() as GPUDevice);
    using step = backend.record(() => backend.sort({ shape: [n], input, values: output }));
    assert.isAbove(isRefusing.refusals, 0, "the test needs scratch");
    assert.equal((await rejection(backend.synchronize())).code, "OUT_OF_MEMORY");
    assert.equal((await rejection(run(step))).code, "OUT_OF_MEMORY");
    isRefusing.now = false;
    assert.deepEqual(await run(step), sorted);
    const { refusals } = isRefusing;
    assert.deepEqual(await run(step), sorted);
    assert.equal(isRefusing.refusals, refusals);
    await backend.dispose();
  });

  it("reach the read that awaits their batch", async () => {
    const backend = createWebGpuBackend();
    await backend.init();
    const bad = doomed(backend);
    backend.unary({ kind: "exp", n: 16, input: bad, output: bad });
    const good = backend.alloc(64);
    const error = await rejection(backend.copyDtoH(new Uint8Array(64), good));
    assert.equal(error.code, "DEVICE_ERROR");
    assert.match(error.message, /doomed/);
    await backend.dispose();
  });

  it("reach a long read when none of its pieces is under way any more", async () => {
    const backend = createWebGpuBackend();
    await backend.init();
    // Two pieces. The first one is refused with the call before it.
    const bytes = 2 ** 24;
    const good = backend.alloc(bytes);
    backend.fill(good, 9, bytes, "u8");
    await backend.synchronize();
    const bad = doomed(backend);
    backend.unary({ kind: "exp", n: 16, input: bad, output: bad });
    const destination = new Uint8Array(bytes);
    const error = await rejection(backend.copyDtoH(destination, good));
    assert.match(error.message, /doomed/);
    destination.fill(1);
    // Takes its bytes after those of earlier reads.
    await backend.copyDtoH(new Uint8Array(bytes), good);
    assert.isTrue(destination.every((byte) => byte === 1));
    await backend.dispose();
  });

  it("reach those who wait, however late the device answers", async () => {
    for (const wait of ["synchronize", "read"] as const) {
      const device = await TestDevice.open();
      const gpu = device.driver.native() as GPUDevice;
      const pop = gpu.popErrorScope.bind(gpu);
      gpu.popErrorScope = async () => {
        const error = await pop();
        await new Promise((resolve) => setTimeout(resolve, 50));
        return error;
      };
      const memory = device.upload(noise(64));
      const lost = device.driver.alloc(64, false);
      lost.buffer.destroy();
      const region = (memory: DeviceMemory) => ({ memory, byteOffset: 0, byteLength: 64 });
      device.driver.copy(region(lost), region(memory));
      device.driver.native(); // Submits it.
      if (wait === "read") await device.download(memory, 0, 64);
      else await device.driver.synchronize();
      assert.match(device.faults[0]?.message ?? "", /^copyDtoD: /, wait);
      await device.driver.close();
    }
  });

  it("of others on a device that is given are not ours, and ours are not theirs", async () => {
    const given = await foreignDevice();
    const theirs: string[] = [];
    given.addEventListener("uncapturederror", (event) => {
      event.preventDefault();
      theirs.push((event as GPUUncapturedErrorEvent).error.message);
    });
    const backend = createWebGpuBackend({ device: given });
    await backend.init();
    const ours: BackendError[] = [];
    backend.onError((error) => ours.push(error));
    given.createBuffer({ label: "of theirs", size: 4, usage: 0x80 | 0x01 });
    const handle = backend.alloc(64);
    backend.fill(handle, 1, 16);
    await backend.synchronize();
    assert.deepEqual(ours, []);
    assert.lengthOf(theirs, 1);
    const bad = doomed(backend);
    given.pushErrorScope("validation");
    backend.unary({ kind: "exp", n: 16, input: bad, output: bad });
    const pending = rejection(backend.synchronize());
    assert.isNull(await given.popErrorScope());
    assert.match((await pending).message, /^unary: .*doomed/s);
    assert.lengthOf(theirs, 1);
    await backend.dispose();
    given.createBuffer({ label: "of theirs", size: 4, usage: 0x80 | 0x01 });
    await given.queue.onSubmittedWorkDone();
    assert.lengthOf(theirs, 2);
    assert.lengthOf(ours, 1);
    given.destroy();
  });

  it("lead to a fresh device by init() after a loss, which the old one cannot reach", async () => {
    const backend = createWebGpuBackend();
    await backend.init();
    const losses: string[] = [];
    backend.onLost((error) => losses.push(error.message));
    for (let i = 1; i <= 3; i++) {
      const device = backend.native();
      const handle = backend.alloc(64);
      backend.fill(handle, 1, 16);
      await backend.loseDevice();
      assert.lengthOf(losses, i);
      assert.equal((await rejection(backend.synchronize())).code, "DEVICE_LOST");
      await backend.init();
      assert.notStrictEqual(backend.native(), device);
      assert.equal(backend.memory().liveAllocations, 0);
      const fresh = backend.alloc(64);
      backend.copyHtoD(fresh, noise(64));
      const results = new Uint8Array(64);
      await backend.copyDtoH(results, fresh);
      assert.deepEqual(results, noise(64));
    }
    await backend.dispose();
    assert.lengthOf(losses, 3);
  });

  it("close a driver whose device is lost, and open it again", async () => {
    const device = await TestDevice.open();
    const read = rejection(
      device.driver.read(new Uint8Array(4), device.upload(noise(4)), 0).then(() => {
        throw new BackendError("DEVICE_LOST", "was faster");
      }),
    );
    const old = device.driver.native() as GPUDevice;
    old.destroy();
    await old.lost;
    assert.equal((await read).code, "DEVICE_LOST");
    await device.driver.close();
    assert.lengthOf(device.losses, 1);
    const faults: BackendError[] = [];
    await device.driver.open({
      lost: () => assert.fail("the old device"),
      error: (error) => faults.push(error),
    });
    const memory = device.upload(noise(40));
    assert.deepEqual(await device.download(memory, 0, 40), noise(40));
    await device.driver.close();
    assert.deepEqual([...faults, ...device.faults], []);
  });

  it("say so when the device that was given is lost", async () => {
    const given = await foreignDevice();
    const backend = createWebGpuBackend({ device: given });
    await backend.init();
    await backend.loseDevice();
    const error = await rejection(backend.init());
    assert.equal(error.code, "DEVICE_LOST");
    assert.match(error.message, /the device that was given is lost/);
    await backend.dispose();
    const provided = await createWebGpuBackend({ device: given })
      .init()
      .catch((reason: BackendError) => reason.code);
    assert.equal(provided, "DEVICE_LOST");
  });

  it("and all else of a backend end with it, on a device that lives on", async () => {
    const script = `
      const { createWebGpuBackend } = await import("@backplane/backend-webgpu");
      const donor = createWebGpuBackend();
      await donor.init();
      const device = donor.native();
      let [made, destroyed, listeners] = [0, 0, 0];
      const { createBuffer, addEventListener } = device;
      device.addEventListener = (...args) => (listeners++, addEventListener.apply(device, args));
      device.createBuffer = (descriptor) => {
        const buffer = createBuffer.call(device, descriptor);
        const destroy = buffer.destroy.bind(buffer);
        let isLive = true;
        made++;
        buffer.destroy = () => (isLive && destroyed++, (isLive = false), destroy());
        return buffer;
      };
      async function guest() {
        const backend = createWebGpuBackend({ device });
        await backend.init();
        const [a, b] = [backend.alloc(64), backend.alloc(1 << 20)];
        backend.copyHtoD(a, new Float32Array(16));
        backend.unary({ kind: "neg", n: 16, input: a, output: b });
        await backend.copyDtoH(new Uint8Array(1 << 20), b);
        await backend.dispose();
        return new WeakRef(backend);
      }
      const guests = [await guest(), await guest()];
      for (let i = 0; i < 10; i++) { globalThis.gc(); await new Promise((r) => setTimeout(r, 5)); }
      console.log(made > 4, made - destroyed, listeners, guests.filter((ref) => ref.deref()).length);
      await donor.dispose();`;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--expose-gc", "--input-type=module", "--eval", script],
      { cwd: import.meta.dirname, timeout: hangMilliseconds },
    );
    assert.equal(stdout.trim(), "true 0 0 0");
  });

  it("leave standard error alone, and the process to end by itself", async () => {
    const script = `
      const { createWebGpuBackend } = await import("@backplane/backend-webgpu");
      const backend = createWebGpuBackend();
      await backend.init();
      const buffer = backend.native().createBuffer({ size: 64, usage: 0x8c });
      const handle = backend.importBuffer(buffer);
      buffer.destroy();
      for (let i = 0; i < 300; i++) backend.unary({ kind: "exp", n: 16, input: handle, output: handle });
      const fault = await backend.synchronize().catch((error) => error.code);
      await backend.loseDevice();
      await backend.init();
      backend.fill(backend.alloc(64), 1, 16);
      console.log(fault);`;
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      ["--input-type=module", "--eval", script],
      { cwd: import.meta.dirname, timeout: hangMilliseconds },
    );
    assert.equal(stdout.trim(), "DEVICE_ERROR");
    assert.equal(withoutLimits(stderr), "");
  });
});

/** Has a device refuse the memory of every buffer from here on, while `now` of the result is true. */
function refuseBuffers(device: GPUDevice): { now: boolean; refusals: number } {
  const state = { now: true, refusals: 0 };
  const filters: GPUErrorFilter[] = [];
  const { createBuffer, pushErrorScope, popErrorScope } = device;
  let isRefused = false;
  device.createBuffer = (descriptor) => {
    const buffer = createBuffer.call(device, descriptor);
    if (!state.now || (descriptor.usage & 0x80) === 0) return buffer;
    state.refusals++;
    isRefused = true;
    buffer.destroy();
    return buffer;
  };
  device.pushErrorScope = (filter) => {
    filters.push(filter);
    pushErrorScope.call(device, filter);
  };
  device.popErrorScope = async () => {
    const isOfMemory = filters.pop() === "out-of-memory" && isRefused;
    if (isOfMemory) isRefused = false;
    const error = await popErrorScope.call(device);
    return isOfMemory ? new GPUOutOfMemoryError("no room") : error;
  };
  return state;
}

/** A device on which every scope with one of these filters has caught an error. */
class FaultyDevice {
  readonly scopes: string[] = [];
  readonly caught: string[] = [];
  readonly #faulty: readonly string[];
  /** Scopes that were opened. */
  opened = 0;
  readonly queue = { submit: () => {}, writeBuffer: () => {} };

  constructor(faulty: readonly string[]) {
    this.#faulty = faulty;
  }

  pushErrorScope(filter: string): void {
    this.opened++;
    this.scopes.push(filter);
  }

  async popErrorScope(): Promise<Error | null> {
    const filter = this.scopes.pop()!;
    await new Promise((resolve) => setTimeout(resolve, 1));
    if (!this.#faulty.includes(filter)) return null;
    this.caught.push(filter);
    return new (filter === "out-of-memory" ? GPUOutOfMemoryError : GPUValidationError)("too much");
  }

  createBuffer(): object {
    return { scopes: [...this.scopes] };
  }
}

class GPUOutOfMemoryError extends Error {}
class GPUValidationError extends Error {}

describe("webgpu guard", () => {
  const made = (faulty: readonly string[]) => {
    const device = new FaultyDevice(faulty);
    const faults: BackendError[] = [];
    const guard = new Guard(device as unknown as GPUDevice, (error) => faults.push(error));
    return { device, faults, guard };
  };

  it("tells of memory that is missing, for which operation and how much", async () => {
    const { device, faults, guard } = made(["out-of-memory"]);
    guard.enter("gemm");
    guard.device.createBuffer({ size: 4096, usage: 0x80 });
    guard.enter("alloc");
    await guard.settled();
    assert.deepEqual(device.scopes, []);
    assert.equal(faults[0]!.code, "OUT_OF_MEMORY");
    assert.equal(faults[0]!.operation, "gemm");
    assert.equal(faults[0]!.message, "gemm: the device has no memory for a buffer of 4096 bytes: too much");
    assert.lengthOf(faults, 1);
  });

  it("leaves errors to the runtime in scopes that the runtime has opened", async () => {
    const { faults, guard } = made(["out-of-memory", "validation"]);
    guard.device.pushErrorScope("out-of-memory");
    const { scopes } = guard.device.createBuffer({ size: 16, usage: 0x80 }) as unknown as FaultyDevice;
    assert.deepEqual(scopes, ["out-of-memory", "validation"]);
    assert.isNotNull(await guard.device.popErrorScope());
    await guard.settled();
    assert.deepEqual(
      faults.map(({ code }) => code),
      ["DEVICE_ERROR"],
    );
  });

  it("makes the calls of a submit in one scope, and names the operations that it is told of", async () => {
    const { device, faults, guard } = made(["validation"]);
    const { queue } = guard.device;
    const submit = (): void => {
      queue.writeBuffer({} as GPUBuffer, 0, new Uint8Array(4));
      queue.submit([{} as GPUCommandBuffer]);
    };
    guard.together(submit, ["gemm", "conv2d"]);
    assert.equal(device.opened, 1);
    assert.throws(() =>
      guard.together(() => {
        throw new Error("no");
      }, []),
    );
    submit();
    assert.equal(device.opened, 4, "afterwards each has its own again");
    await guard.settled();
    assert.deepEqual(device.scopes, []);
    assert.match(faults[0]!.message, /^one of gemm, conv2d: the device reported/);
  });

  it("answers only after the runtime has, for memory that the pool could not get", async () => {
    const { guard } = made(["out-of-memory"]);
    const refusals: unknown[] = [];
    const pool = new MemoryPool({
      ...{ device: guard.device, maxBytes: 2 ** 28, poolBytes: 0, currentBatch: () => 1 },
      currentOperation: () => guard.operation,
      onDestroy: () => {},
      onOutOfMemory: (bytes, reason, operation) => refusals.push([bytes, reason, operation]),
    });
    guard.enter("conv2d");
    pool.acquire(2 ** 26, false);
    guard.enter("alloc");
    await guard.settled();
    assert.deepEqual(refusals, [[2 ** 26, "too much", "conv2d"]]);
  });
});
