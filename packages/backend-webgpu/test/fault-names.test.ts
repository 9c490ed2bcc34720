import { createWebGpuBackend, type WebGpuBackend } from "@backplane/backend-webgpu";
import type { DeviceHandle } from "@backplane/core";
import { assert } from "chai";
import { holding } from "#src/runtime/holding.js";
import { foreignDevice, TestDevice } from "./support.js";

const MiB = 2 ** 20;
/** Several pieces of a read and of an upload. */
const LONG = 32 * MiB;

/** What the runtime asks of the device in the midst of other operations, which the device refuses. */
describe("webgpu faults of what the runtime does by itself", () => {
  let device: GPUDevice;
  let backend: WebGpuBackend;
  let heard: (string | undefined)[];
  let uncaptured: string[];

  /** The device refuses such buffers from now on, because of a usage that no buffer has. */
  function refuse(isRefused: (descriptor: GPUBufferDescriptor) => boolean): void {
    const create = device.createBuffer.bind(device);
    device.createBuffer = (descriptor) =>
      create(isRefused(descriptor) ? { ...descriptor, usage: 0x03 } : descriptor);
  }

  beforeEach(async () => {
    device = await foreignDevice();
    uncaptured = [];
    device.addEventListener("uncapturederror", (event) => {
      event.preventDefault();
      uncaptured.push((event as GPUUncapturedErrorEvent).error.message);
    });
    backend = createWebGpuBackend({ device });
    await backend.init();
    heard = [];
    backend.onError(({ operation }) => heard.push(operation));
  });

  afterEach(async () => {
    assert.deepEqual(uncaptured, []);
    await backend.dispose();
    device.destroy();
  });

  const long = (): DeviceHandle => backend.alloc(LONG, { zero: false });
  const negate = (handle: DeviceHandle): void =>
    backend.unary({ kind: "neg", n: LONG / 4, input: handle, output: handle });

  for (const how of ["call", "recording"] as const)
    it(`name the read if a ${how} that overwrites its source makes it copy the rest`, async () => {
      const [source, other] = [long(), backend.alloc(64)];
      const recording = backend.record(() => negate(source));
      await backend.synchronize();
      const pending = backend.copyDtoH(new Uint8Array(LONG), source).catch(() => {});
      backend.fill(other, 1, 16);
      refuse(({ size }) => size > MiB);
      if (how === "call") negate(source);
      else recording.run();
      await Promise.all([pending, backend.synchronize().catch(() => {})]);
      assert.equal(heard[0], "copyDtoH");
    });

  it("name the read if it needs its staging buffer later than it was asked for", async () => {
    const [one, two, other] = [long(), backend.alloc(64), backend.alloc(64)];
    const reads = [backend.copyDtoH(new Uint8Array(LONG), one), backend.copyDtoH(new Uint8Array(64), two)];
    refuse(({ label }) => label === "read back");
    backend.fill(other, 1, 16);
    await Promise.allSettled(reads);
    assert.equal(heard[0], "copyDtoH");
  });

  it("name the upload that gets its staging buffer after the call", async () => {
    const guest = await TestDevice.open({ device });
    const { driver } = guest;
    const [one, other] = [driver.alloc(LONG, false), driver.alloc(64, false)];
    const upload = driver.upload(one, 0, new Uint8Array(LONG)).catch(() => {});
    refuse(({ label }) => label === "upload");
    driver.fill({ memory: other, byteOffset: 0, byteLength: 64 }, 1);
    await upload;
    assert.equal(guest.faults[0]!.operation, "copyHtoD");
    await driver.close();
  });

  it("name the upload that waited for a pipeline", async () => {
    holding.onSoftware = true;
    try {
      const [one, other] = [backend.alloc(64), backend.alloc(64)];
      backend.unary({ kind: "neg", n: 16, input: one, output: one });
      backend.copyHtoD(one, new Uint8Array(64));
      backend.fill(other, 1, 16);
      const { queue } = device;
      const write = queue.writeBuffer.bind(queue);
      queue.writeBuffer = (buffer, offset, ...rest: [GPUAllowSharedBufferSource]) =>
        write(buffer, buffer.label === "parameters" ? offset : buffer.size, ...rest);
      Object.defineProperty(device, "queue", { value: queue });
      await backend.synchronize().catch(() => {});
      assert.equal(heard[0], "copyHtoD");
    } finally {
      holding.onSoftware = false;
    }
  });
});
