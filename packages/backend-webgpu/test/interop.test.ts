import {
  createWebGpuBackend,
  isWebGpuBackend,
  listAdapters,
  type WebGpuBackend,
  webgpu,
} from "@backplane/backend-webgpu";
import { type BackendError, BackendRegistry, type ErrorCode, SwitchableBackend } from "@backplane/core";
import { assert } from "chai";
import { driverOf, findDawn, foreignDevice, noise, rejection, TestDevice } from "./support.js";

const STORAGE = 0x80;
const COPY = 0x04 | 0x08;
const MAP_READ = 0x01;

/** The bytes of a buffer, read without the backend. */
async function contents(device: GPUDevice, buffer: GPUBuffer, bytes = buffer.size): Promise<Uint8Array> {
  const staging = device.createBuffer({ size: bytes, usage: MAP_READ | 0x08 });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, staging, 0, bytes);
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(MAP_READ);
  return new Uint8Array(staging.getMappedRange());
}

function refused(code: ErrorCode, message: RegExp, act: () => unknown): void {
  try {
    act();
  } catch (error) {
    assert.equal((error as BackendError).code, code, (error as BackendError).message);
    assert.match((error as BackendError).message, message);
    return;
  }
  assert.fail(`nothing was thrown instead of ${message}`);
}

describe("webgpu interop", () => {
  let backend: WebGpuBackend;
  let device: GPUDevice;

  beforeEach(async () => {
    backend = createWebGpuBackend();
    await backend.init();
    device = backend.native() as GPUDevice;
  });

  afterEach(() => backend.dispose());

  function buffer(size: number, usage = STORAGE | COPY, more: Partial<GPUBufferDescriptor> = {}): GPUBuffer {
    return device.createBuffer({ size, usage, ...more });
  }

  it("computes in a buffer of someone else, after what was submitted before", async () => {
    const theirs = buffer(64);
    device.queue.writeBuffer(
      theirs,
      0,
      Float32Array.from({ length: 16 }, (_, i) => i),
    );
    const handle = backend.importBuffer(theirs);
    backend.unary({
      kind: "neg",
      n: 12,
      input: { handle, byteOffset: 16 },
      output: { handle, byteOffset: 16 },
    });
    const results = new Float32Array(16);
    await backend.copyDtoH(results, handle);
    assert.deepEqual([...results], [0, 1, 2, 3, -4, -5, -6, -7, -8, -9, -10, -11, -12, -13, -14, -15]);
    backend.fill(handle, 7, 4);
    backend.native();
    assert.deepEqual(
      [...new Float32Array((await contents(device, theirs)).slice().buffer)].slice(0, 5),
      [7, 7, 7, 7, -4],
    );
  });

  it("counts the buffer while its handle lives, and neither destroys nor lends it", async () => {
    const theirs = buffer(4096);
    const before = backend.memory();
    refused("INVALID_ARGUMENT", /byteLength is unknown/, () =>
      backend.importBuffer(theirs, { byteLength: 4090 } as object),
    );
    const handle = backend.importBuffer(theirs, { bytes: 4090 });
    assert.equal(backend.memory().liveBytes, before.liveBytes + 4090);
    assert.equal(backend.memory().reservedBytes, before.reservedBytes + 4096);
    refused("OUT_OF_BOUNDS", /4090 bytes/, () => backend.fill({ handle, byteOffset: 4088 }, 1, 3, "u8"));
    backend.copyHtoD(handle, noise(4090));
    const held = backend.memory().reservedBytes;
    backend.free(handle);
    assert.equal(backend.memory().reservedBytes, held - 4096);
    refused("INVALID_HANDLE", /not live/, () => backend.fill(handle, 1, 1));
    const handles = Array.from({ length: 4 }, () => backend.alloc(4090));
    for (const own of handles) assert.notStrictEqual(backend.native(own), theirs);
    const again = backend.importBuffer(theirs);
    assert.deepEqual((await contents(device, theirs)).subarray(0, 4090), noise(4090));
    assert.notEqual(again, handle);
    await backend.dispose();
    assert.equal(theirs.mapState, "unmapped");
  });

  it("leaves the buffer alone when it is disposed of", async () => {
    const given = await foreignDevice();
    const guest = createWebGpuBackend({ device: given });
    await guest.init();
    const theirs = given.createBuffer({ size: 64, usage: STORAGE | COPY });
    guest.fill(guest.importBuffer(theirs), 3, 64, "u8");
    await guest.synchronize();
    await guest.dispose();
    assert.deepEqual(await contents(given, theirs), new Uint8Array(64).fill(3));
    given.destroy();
  });

  it("delivers a read that is pending when its foreign buffer is freed and overwritten", async () => {
    const bytes = 24 << 20; // More than is read at once.
    const theirs = buffer(bytes);
    const handle = backend.importBuffer(theirs);
    backend.fill(handle, 5, bytes, "u8");
    const results = new Uint8Array(bytes);
    const pending = backend.copyDtoH(results, handle);
    backend.free(handle);
    const encoder = device.createCommandEncoder();
    encoder.clearBuffer(theirs);
    device.queue.submit([encoder.finish()]);
    await pending;
    assert.isTrue(results.every((byte) => byte === 5));
  });

  it("has submitted what uses a foreign buffer when its handle is freed", async () => {
    const theirs = buffer(64);
    const [handle, copy] = [backend.importBuffer(theirs), backend.alloc(64)];
    backend.fill(handle, 5, 64, "u8");
    backend.copyDtoD(copy, handle, 64);
    backend.free(handle);
    theirs.destroy();
    const results = new Uint8Array(64);
    await backend.copyDtoH(results, copy);
    assert.deepEqual(results, new Uint8Array(64).fill(5));
  });

  it("keeps nothing of a foreign buffer that was freed", async () => {
    const guest = await TestDevice.open({ device });
    const memory = guest.driver.importBuffer(buffer(64), {});
    const region = { memory, byteOffset: 0, byteLength: 64 };
    guest.driver.fill({ ...region, byteLength: 63 }, 0x01010101);
    assert.isAbove(memory.bindGroups.size, 0);
    guest.driver.free(memory);
    assert.equal(memory.bindGroups.size, 0);
    await guest.close();
  });

  it("refuses buffers that kernels cannot use, and says which they can", async () => {
    const bytes = /bytes is .*; allowed: whole numbers from 1 to the buffer's 64/;
    for (const [wrong, message] of [
      [undefined, /is undefined; allowed: a GPUBuffer/],
      [{}, /allowed: a GPUBuffer/],
      [device, /allowed: a GPUBuffer/],
      [
        buffer(64, STORAGE),
        /lacks the usage COPY_SRC and COPY_DST; allowed: STORAGE \| COPY_SRC \| COPY_DST/,
      ],
      [buffer(64, COPY), /lacks the usage STORAGE/],
      [buffer(40), /has 40 bytes; allowed: multiples of 16/],
      [buffer(0), /has 0 bytes; allowed: multiples of 16/],
      [buffer(64, STORAGE | COPY, { mappedAtCreation: true }), /is mapped; allowed: unmapped/],
    ] as [GPUBuffer, RegExp][])
      refused("INVALID_ARGUMENT", message, () => backend.importBuffer(wrong));
    for (const wrong of [0, 65, 1.5, -1, "64"] as number[])
      refused("INVALID_ARGUMENT", bytes, () => backend.importBuffer(buffer(64), { bytes: wrong }));
    const twice = buffer(64);
    backend.importBuffer(twice);
    refused("INVALID_ARGUMENT", /has a handle already/, () => backend.importBuffer(twice));
    const own = backend.exportBuffer(backend.alloc(64)).buffer;
    refused("INVALID_ARGUMENT", /belongs to this backend/, () => backend.importBuffer(own));
    assert.equal(backend.memory().liveAllocations, 2);
    await backend.synchronize();
    await backend.dispose();
    refused("DISPOSED", /disposed/, () => backend.importBuffer(twice));
    refused("NOT_INITIALIZED", /init/, () => createWebGpuBackend().importBuffer(twice));
  });

  it("reports a buffer of another device when it is used", async () => {
    const other = await foreignDevice();
    const handle = backend.importBuffer(other.createBuffer({ size: 64, usage: STORAGE | COPY }));
    backend.unary({ kind: "exp", n: 16, input: handle, output: handle });
    const error = await rejection(backend.synchronize());
    assert.equal(error.code, "DEVICE_ERROR");
    assert.match(error.message, /^unary: /);
    other.destroy();
  });

  it("hands out the buffer of an allocation with all its work submitted", async () => {
    const handle = backend.alloc(100);
    backend.fill(handle, 9, 100, "u8");
    const { buffer: ours, byteOffset, byteLength } = backend.exportBuffer(handle);
    assert.deepEqual([byteOffset, byteLength], [0, 100]);
    assert.deepEqual((await contents(device, ours)).subarray(0, 100), new Uint8Array(100).fill(9));
    device.queue.writeBuffer(ours, 8, Uint8Array.of(1, 2, 3, 4));
    const results = new Uint8Array(6);
    await backend.copyDtoH(results, { handle, byteOffset: 7 });
    assert.deepEqual([...results], [9, 1, 2, 3, 4, 9]);
    refused("INVALID_ARGUMENT", /0 bytes/, () => backend.exportBuffer(backend.alloc(0)));
    backend.free(handle);
    refused("INVALID_HANDLE", /handle/, () => backend.exportBuffer(handle));
  });

  it("knows its own backends from others", async () => {
    const registry = new BackendRegistry([webgpu()]);
    const opened = await registry.open();
    assert.isTrue(isWebGpuBackend(opened.backend));
    await opened.backend.dispose();
    assert.isFalse(isWebGpuBackend(new SwitchableBackend(registry)));
  });
});

describe("webgpu adapters", () => {
  it("are listed with their names, tiers and limits, and without opening a device", async () => {
    const adapters = await listAdapters();
    assert.isNotEmpty(adapters);
    const backend = createWebGpuBackend();
    await backend.init();
    const { name, details } = backend.capabilities.device;
    await backend.dispose();
    const first = adapters[0]!;
    assert.equal(first.device.name, name);
    assert.isTrue(details.tier!.startsWith(first.tier));
    assert.include(first.tierReason, "subgroup-matrices");
    assert.include(first.powerPreferences, "high-performance");
    assert.isAtLeast(first.limits.maxBufferSize, 2 ** 28);
    assert.isAtLeast(first.limits.maxComputeInvocationsPerWorkgroup, 256);
    const keys = adapters.map((adapter) => JSON.stringify({ ...adapter, powerPreferences: [] }));
    assert.lengthOf(new Set(keys), keys.length);
  });

  it("are chosen by name", async () => {
    const name = (await listAdapters())[0]!.device.name;
    const [part] = (await listAdapters({ dawn: { adapter: "SwiftShader" } })).map(
      ({ device }) => device.name,
    );
    if (part !== undefined) assert.match(part, /swiftshader/);
    const backend = createWebGpuBackend({ dawn: { adapter: "no such adapter" } });
    const error = await rejection(backend.init());
    assert.equal(error.code, "UNSUPPORTED");
    assert.match(error.message, /Available adapters/, `beside ${name}`);
    await backend.dispose();
  });

  it("can be given, and give one device", async () => {
    const adapter = (await (await findDawn()).requestAdapter())!;
    const backend = createWebGpuBackend({ adapter });
    await backend.init();
    const device = backend.native() as GPUDevice;
    const handle = backend.alloc(64);
    backend.fill(handle, 1, 16);
    await backend.synchronize();
    const again = createWebGpuBackend({ adapter });
    const error = await rejection(again.init());
    assert.equal(error.code, "UNSUPPORTED");
    assert.match(error.message, /adapter.*gives.* no device/);
    await again.dispose();
    await backend.dispose();
    assert.equal((await device.lost).reason, "destroyed");
    // As some platforms give it where they have no other.
    const { info, features, limits } = adapter;
    const barren = { info, features, limits, requestDevice: async () => device };
    const barrenError = await rejection(
      createWebGpuBackend({ adapter: barren as unknown as GPUAdapter }).init(),
    );
    assert.equal(barrenError.code, "UNSUPPORTED");
    assert.match(barrenError.message, /the adapter gives no device that works/);
    assert.throws(
      () => driverOf(findDawn, { adapter, device }),
      /adapter is given, and so is device; allowed: one of the two/,
    );
  });
});
