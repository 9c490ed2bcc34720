import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { createWebGpuBackend, webgpu } from "@backplane/backend-webgpu";
import type { BackendError } from "@backplane/core";
import { assert } from "chai";
import { create } from "webgpu";
import { input, output, program } from "#src/program/program.js";
import { foldedGrid } from "#src/runtime/recorder.js";
import {
  type BufferRegion,
  driverOf,
  foreignDevice,
  hangMilliseconds,
  noise,
  rejection,
  TestDevice,
} from "./support.js";

describe("webgpu device", () => {
  it("describes the adapter without opening a device, and the same once open", async () => {
    const probed = await webgpu().probe();
    assert.isTrue(probed.available);
    const device = await TestDevice.open();
    const { device: described, limits } = device.description!;
    assert.equal(described.kind, "gpu");
    assert.isNotEmpty(described.name);
    if (probed.available) assert.equal(described.name, probed.device.name);
    assert.equal(limits.maxAllocationBytes % 16, 0);
    assert.isAtLeast(limits.maxAllocationBytes, 1 << 27);
    await device.close();
  });

  it("says why there is no device", async () => {
    const none = driverOf(async () => undefined);
    const events = { lost: () => {}, error: () => {} };
    assert.equal((await rejection(none.open(events))).code, "UNSUPPORTED");
    const noAdapter = driverOf(async () => create(["adapter=no such adapter"]));
    const error = await rejection(noAdapter.open(events));
    assert.equal(error.code, "UNSUPPORTED");
    assert.include(error.message, "adapter");
    const backend = createWebGpuBackend({ dawn: { enable: [] }, powerPreference: "low-power" });
    await backend.init();
    await backend.dispose();
  });

  it("rejects pending reads and reports the loss when the device goes away", async () => {
    const device = await TestDevice.open();
    const memory = device.upload(noise(1 << 16));
    const destination = new Uint8Array(1 << 16);
    const pending = device.driver.read(destination, memory, 0);
    (device.driver.native() as GPUDevice).destroy();
    const [first, later, waiting] = await Promise.all([
      // A read that had arrived already may be delivered; nothing may be made up.
      pending.then(
        () => assert.deepEqual(destination, noise(1 << 16)),
        (error: BackendError) => error.code,
      ),
      rejection(device.driver.read(destination, memory, 0)),
      rejection(device.driver.synchronize()),
    ]);
    if (first !== undefined) assert.equal(first, "DEVICE_LOST");
    assert.equal(later.code, "DEVICE_LOST");
    assert.equal(waiting.code, "DEVICE_LOST");
    assert.lengthOf(device.losses, 1);
    await device.driver.close();
  });

  it("does not report its own closing as a loss, and rejects what is pending", async () => {
    const device = await TestDevice.open();
    const memory = device.upload(noise(1 << 16));
    const pending = device.driver.read(new Uint8Array(1 << 16), memory, 0).then(
      () => undefined,
      (error: BackendError) => error.code,
    );
    await device.driver.close();
    assert.include([undefined, "DISPOSED"], await pending);
    assert.deepEqual(device.losses, []);
    assert.deepEqual(device.faults, []);
  });

  it("can be opened again after it was closed", async () => {
    const device = new TestDevice();
    const events = { lost: () => {}, error: (error: BackendError) => device.faults.push(error) };
    for (let i = 0; i < 3; i++) {
      await device.driver.open(events);
      const memory = device.upload(noise(33));
      assert.deepEqual(await device.download(memory, 0, 33), noise(33));
      await device.driver.close();
    }
    assert.deepEqual(device.faults, []);
  });

  it("reports what the device refuses, with the name of the program", async () => {
    const device = await TestDevice.open();
    const memory = device.upload(noise(64));
    const faulty = program({
      name: "faulty_program",
      bindings: { data: output("f32") },
      parameters: { n: "u32" },
      body: "@compute @workgroup_size(1) fn main() { data[0] = no_such_function(); }",
    });
    const region = { memory, byteOffset: 0, byteLength: 64 };
    device.driver.withContext((context) => context.dispatch(faulty, { data: region }, { n: 1 }, 1));
    await device.driver.synchronize();
    assert.isNotEmpty(device.faults);
    assert.equal(device.faults[0]!.code, "DEVICE_ERROR");
    assert.include(device.faults.map(({ message }) => message).join("\n"), "faulty_program");
    assert.deepEqual(await device.download(memory, 0, 64), noise(64));
    await device.driver.close();
  });

  it("does not deliver a read whose batch was refused", async () => {
    const device = await TestDevice.open();
    const memory = device.upload(noise(64));
    const copy = (source: BufferRegion): void =>
      device.driver.copy({ memory, byteOffset: 0, byteLength: 8 }, source);
    // Commands whose kernels are still being compiled come in another batch.
    copy({ memory: device.upload(noise(64)), byteOffset: 0, byteLength: 8 });
    await device.driver.synchronize();
    // Recorded in the same batch as the read, and refused with it.
    copy(destroyed(device, 8));
    const error = await rejection(device.download(memory, 0, 64));
    assert.equal(error.code, "DEVICE_ERROR");
    assert.isNotEmpty(device.faults);
    assert.deepEqual(await device.download(memory, 0, 64), noise(64));
    await device.driver.close();
  });

  /** A region of a buffer that may no longer be used. */
  function destroyed(device: TestDevice, byteLength: number): BufferRegion {
    const memory = device.driver.alloc(byteLength, false);
    memory.buffer.destroy();
    return { memory, byteOffset: 0, byteLength };
  }

  it("reports memory that the device does not have", async function () {
    const device = await TestDevice.open();
    if (!device.description!.device.software) this.skip(); // Would fill the memory of a real device.
    // Address space and memory are the machine's; what is refused is refused as out of memory.
    const memories = Array.from({ length: 4 }, () =>
      device.driver.alloc(device.description!.limits.maxAllocationBytes, false),
    );
    await device.driver.synchronize();
    for (const { code } of device.faults) assert.equal(code, "OUT_OF_MEMORY");
    for (const memory of memories) device.driver.free(memory);
    await device.driver.close();
  });

  it("uses a device that it is given, and leaves it alive", async () => {
    const given = await foreignDevice();
    const device = await TestDevice.open({ device: given });
    assert.strictEqual(device.driver.native(), given);
    const memory = device.upload(noise(40));
    assert.deepEqual(await device.download(memory, 1, 39), noise(40).subarray(1));
    const buffer = device.driver.native(memory) as GPUBuffer;
    assert.isAtLeast(buffer.size, 40);
    await device.close();
    const still = given.createBuffer({ size: 16, usage: 8, mappedAtCreation: true });
    still.unmap();
    await given.queue.onSubmittedWorkDone();
    given.destroy();
  });

  it("has submitted all work when it hands out a buffer", async () => {
    const device = await TestDevice.open();
    const memory = device.driver.alloc(64, true);
    device.driver.fill({ memory, byteOffset: 0, byteLength: 64 }, 0x07070707);
    const gpu = device.driver.native() as GPUDevice;
    const buffer = device.driver.native(memory) as GPUBuffer;
    const staging = gpu.createBuffer({ size: 64, usage: 1 | 8 });
    const encoder = gpu.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, staging, 0, 64);
    gpu.queue.submit([encoder.finish()]);
    await staging.mapAsync(1);
    assert.deepEqual(new Uint8Array(staging.getMappedRange()), new Uint8Array(64).fill(7));
    await device.close();
  });

  it("leaves features unused that it is told to leave", async () => {
    const device = await TestDevice.open({ disableFeatures: ["subgroups", "shader-f16"] });
    device.driver.withContext(({ features }) => {
      assert.isFalse(features.subgroups);
      assert.isFalse(features.shaderF16);
    });
    assert.isFalse((device.driver.native() as GPUDevice).features.has("subgroups"));
    await device.close();
  });

  it("runs more dispatches and larger parameter blocks than one batch holds", async () => {
    const device = await TestDevice.open();
    const count = program({
      name: "count",
      bindings: { data: output("u32") },
      parameters: { step: "u32", table: { rows: 40 }, scale: "f32", sign: "i32" },
      body: `@compute @workgroup_size(1) fn main() {
        let i = parameters.data_offset;
        data[i] = data[i] + parameters.step;
        data[i + 1u] = data[i + 1u] + parameters.table[39].w;
        data[i + 2u] = u32(f32(data[i + 2u]) + parameters.scale);
        data[i + 3u] = u32(i32(data[i + 3u]) - parameters.sign);
      }`,
    });
    const memory = device.driver.alloc(64, true);
    const data = { memory, byteOffset: 20, byteLength: 16 };
    const table = Array.from({ length: 160 }, (_, i) => (i === 159 ? 3 : 0));
    for (let i = 0; i < 1000; i++)
      device.driver.withContext((context) =>
        context.dispatch(count, { data }, { step: i, table, scale: 2.5, sign: -1 }, 1),
      );
    const words = new Uint32Array((await device.download(memory, 20, 16)).buffer);
    assert.deepEqual([...words], [499_500, 3000, 2000, 1000]);
    await device.close();
  });

  it("copies an input away that lies in the buffer of an output, and refuses one that overlaps it", async () => {
    const device = await TestDevice.open();
    const twice = program({
      name: "twice",
      bindings: { source: input("u32"), data: output("u32") },
      parameters: {},
      body: `@compute @workgroup_size(1) fn main() {
        data[parameters.data_offset] = 2u * source[parameters.source_offset];
      }`,
    });
    const memory = device.upload(new Uint8Array(Uint32Array.of(1, 2, 3, 4, 5, 6).buffer));
    const word = (index: number) => ({ memory, byteOffset: 4 * index, byteLength: 4 });
    const run = (source: number, data: number) =>
      device.driver.withContext((context) =>
        context.dispatch(twice, { source: word(source), data: word(data) }, {}, 1),
      );
    run(5, 0);
    run(0, 3);
    run(3, 4);
    assert.throws(() => run(2, 2), /cannot be bound together/);
    const words = new Uint32Array((await device.download(memory, 0, 24)).buffer);
    assert.deepEqual([...words], [12, 2, 3, 24, 48, 6]);
    await device.close();
  });

  it("folds counts of workgroups into two dimensions", () => {
    assert.deepEqual(foldedGrid(1, 65_535), [1, 1, 1]);
    assert.deepEqual(foldedGrid(65_535, 65_535), [65_535, 1, 1]);
    assert.deepEqual(foldedGrid(65_536, 65_535), [32_768, 2, 1]);
    for (const count of [65_537, 1_000_003, 4_000_000_000]) {
      const [x, y] = foldedGrid(count, 65_535);
      assert.isAtLeast(x * y, count);
      assert.isBelow(x * y - count, y);
      assert.isAtMost(Math.max(x, y), 65_535);
    }
  });

  it("lets the process end by itself, disposed of or not", async () => {
    for (const ending of ["await backend.dispose();", "", "backend.native().destroy();"]) {
      const script = `
        const { createWebGpuBackend } = await import("@backplane/backend-webgpu");
        const backend = createWebGpuBackend();
        await backend.init();
        const handle = backend.alloc(1000);
        backend.unary({ kind: "exp", n: 250, input: handle, output: handle });
        const results = new Float32Array(250);
        await backend.copyDtoH(results, handle);
        ${ending}
        if (results[249] === 1) console.log("done");`;
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ["--input-type=module", "--eval", script],
        { cwd: import.meta.dirname, timeout: hangMilliseconds },
      );
      assert.include(stdout, "done", ending);
    }
  });

  it("survives the collection of a backend that was not closed", async () => {
    const script = `
      const { createWebGpuBackend } = await import("@backplane/backend-webgpu");
      async function leak() {
        const backend = createWebGpuBackend();
        await backend.init();
        backend.fill(backend.alloc(64), 1, 16);
        await backend.synchronize();
      }
      for (let i = 0; i < 4; i++) await leak();
      for (let i = 0; i < 20; i++) { globalThis.gc(); await new Promise((r) => setTimeout(r, 10)); }
      console.log("done");`;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--expose-gc", "--input-type=module", "--eval", script],
      { cwd: import.meta.dirname, timeout: hangMilliseconds },
    );
    assert.include(stdout, "done");
  });
});
