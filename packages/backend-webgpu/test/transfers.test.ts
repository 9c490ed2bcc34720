import type { BackendError } from "@backplane/core";
import { assert } from "chai";
import { holding } from "#src/runtime/holding.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { TestDevice, withDevice, withoutTime } from "./support.js";

const MiB = 2 ** 20;

/** Several pieces and a rest, no multiple of anything. */
const LONG = 17 * MiB + 4321;

/** More than this is never held to bring bytes back. */
const STAGING_BYTES = 16 * MiB;

/** Bytes of which every word differs from its neighbours, made quickly. */
function pattern(length: number, seed: number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(length / 4));
  for (let i = 0; i < words.length; i++) words[i] = Math.imul(i + seed, 0x9e3779b1);
  return new Uint8Array(words.buffer, 0, length);
}

function assertSame(got: Uint8Array, expected: Uint8Array, label: string): void {
  assert.equal(got.byteLength, expected.byteLength, label);
  if (Buffer.compare(got, expected) === 0) return;
  const place = got.findIndex((byte, i) => byte !== expected[i]);
  assert.fail(`${label}: byte ${place} of ${got.length} is ${got[place]}, not ${expected[place]}`);
}

async function codeOf(promise: Promise<unknown>): Promise<string | undefined> {
  return promise.then(
    () => undefined,
    (error: BackendError) => error.code,
  );
}

describe("webgpu transfers", () => {
  const device = withDevice();

  function region(memory: DeviceMemory, byteLength = LONG) {
    return { memory, byteOffset: 0, byteLength };
  }

  it("writes and reads in pieces at any offset and length, and nothing else", async () => {
    const { driver } = device();
    const content = pattern(LONG, 1);
    const memory = device().upload(content);
    for (const [offset, length] of [
      [0, LONG],
      [3, 8 * MiB],
      [1, 8 * MiB + 3],
      [8 * MiB - 1, 2],
      [MiB + 2, 16 * MiB - 5],
      [LONG - 1, 1],
    ] as const) {
      const label = `${length} bytes at ${offset}`;
      const part = await device().download(memory, offset, length);
      assertSame(part, content.subarray(offset, offset + length), label);
      const source = pattern(length, offset + 7);
      driver.write(memory, offset, source);
      content.set(source, offset);
      assertSame(await device().download(memory, 0, LONG), content, `all after ${label}`);
    }
    driver.free(memory);
  });

  it("takes what it writes at the call", async () => {
    const { driver } = device();
    const shared = new Uint8Array(new SharedArrayBuffer(LONG + 5), 5);
    shared.set(pattern(LONG, 2));
    const memory = driver.alloc(LONG, false);
    driver.write(memory, 0, shared);
    shared.fill(0);
    assertSame(await device().download(memory, 0, LONG), pattern(LONG, 2), "written");
    driver.free(memory);
  });

  it("reads what there was at the call, whatever is done to the memory before it has arrived", async () => {
    const { driver } = device();
    const other = device().upload(pattern(LONG, 3));
    const changes: Readonly<Record<string, (memory: DeviceMemory) => void>> = {
      "a write of all": (memory) => driver.write(memory, 0, new Uint8Array(LONG)),
      "a write of its last bytes": (memory) => driver.write(memory, LONG - 3, Uint8Array.of(1, 2, 3)),
      "a fill": (memory) => driver.fill(region(memory), 0x55555555),
      "a copy": (memory) => driver.copy(region(memory), region(other)),
      "writes of another owner"(memory) {
        driver.free(memory);
        const next = [1, 2].map(() => driver.alloc(LONG, false));
        for (const owned of next) driver.fill(region(owned), 0x66666666);
        for (const owned of next) driver.free(owned);
      },
      "zeros for another owner"(memory) {
        driver.free(memory);
        const next = driver.alloc(LONG, true);
        driver.copy({ memory: next, byteOffset: 1, byteLength: 1 }, region(other, 1));
        driver.free(next);
      },
      "writes to the buffer itself"(memory) {
        const buffer = driver.native(memory) as GPUBuffer;
        (driver.native() as GPUDevice).queue.writeBuffer(buffer, 0, new Uint8Array(8 * MiB));
      },
    };
    for (const [name, change] of Object.entries(changes)) {
      const expected = pattern(LONG + 6, 4);
      const memory = device().upload(expected);
      const reads = [0, 5].map((offset) => device().download(memory, offset, LONG + 1));
      change(memory);
      const small = device().download(other, 0, 8);
      for (const [i, offset] of [0, 5].entries())
        assertSame(await reads[i]!, expected.subarray(offset, offset + LONG + 1), name);
      assertSame(await small, pattern(8, 3), `after ${name}`);
      if (!name.includes("owner")) driver.free(memory);
    }
    driver.free(other);
  });

  it("serves any number of reads at once from little memory, and keeps none of it", async () => {
    const busy = await TestDevice.open({ poolBytes: 0 });
    const { driver } = busy;
    const content = pattern(STAGING_BYTES, 5);
    const memory = busy.upload(content);
    await driver.synchronize();
    const before = driver.reservedBytes();
    const reads: Promise<void>[] = [];
    // The ring is full of large buffers when the small reads come.
    await busy.download(memory, 0, STAGING_BYTES);
    let most = driver.reservedBytes() - before;
    assert.isAbove(most, STAGING_BYTES / 2);
    for (let i = 0; i < 60; i++) {
      const destination = new Uint8Array(i % 3 === 0 ? 3 * MiB - i : 1000 + i);
      const read = driver.read(destination, memory, i);
      most = Math.max(most, driver.reservedBytes() - before);
      reads.push(
        read.then(() => {
          most = Math.max(most, driver.reservedBytes() - before);
          assertSame(destination, content.subarray(i, i + destination.length), `read ${i}`);
        }),
      );
    }
    await Promise.all(reads);
    assert.isAtMost(most, STAGING_BYTES);
    // With a writer in between, the reads that wait need memory of the device, and give it back.
    const late = Array.from({ length: 12 }, () => busy.download(memory, 0, 3 * MiB));
    driver.fill(region(memory, STAGING_BYTES), 0);
    assert.isAbove(driver.reservedBytes() - before, STAGING_BYTES);
    for (const read of late) assertSame(await read, content.subarray(0, 3 * MiB), "read before the fill");
    await driver.synchronize();
    assert.isAtMost(driver.reservedBytes() - before, STAGING_BYTES);
    driver.free(memory);
    assert.isAtMost(driver.reservedBytes(), STAGING_BYTES);
    await busy.close();
  });

  it("uploads to memory whose zeros wait for their pipeline", async () => {
    holding.onSoftware = true;
    try {
      const held = await TestDevice.open();
      const { driver } = held;
      const content = pattern(MiB, 10);
      driver.free(held.upload(pattern(2 * MiB, 11)));
      const memory = driver.alloc(2 * MiB, true);
      await driver.upload(memory, 0, content);
      assertSame(await held.download(memory, 0, MiB), content, "uploaded");
      assertSame(await held.download(memory, MiB, MiB), new Uint8Array(MiB), "beside it");
      await held.close();
    } finally {
      holding.onSoftware = false;
    }
  });

  it("serves any number of uploads at once from little memory", async () => {
    const busy = await TestDevice.open({ poolBytes: 0 });
    const { driver } = busy;
    const content = pattern(17 * MiB, 12);
    const memories = Array.from({ length: 12 }, (_, i) => driver.alloc(i === 5 ? 17 * MiB : MiB, false));
    await driver.synchronize();
    const before = driver.reservedBytes();
    await driver.upload(memories[0]!, 0, content.subarray(0, MiB));
    // One buffer is enough for one piece.
    assert.isAtMost(driver.reservedBytes() - before, STAGING_BYTES / 2);
    let most = 0;
    const look = (): void => {
      most = Math.max(most, driver.reservedBytes() - before);
    };
    await Promise.all(
      memories.map((memory, i) => {
        const upload = driver
          .upload(memory, 0, content.subarray(4 * i, i === 5 ? 17 * MiB : 4 * i + MiB))
          .then(look);
        look();
        return upload;
      }),
    );
    assert.isAtMost(most, STAGING_BYTES);
    for (const [i, memory] of memories.entries()) {
      const expected = content.subarray(4 * i, i === 5 ? 17 * MiB : 4 * i + MiB);
      assertSame(await busy.download(memory, 0, expected.length), expected, `upload ${i}`);
    }
    driver.trim();
    for (const memory of memories) driver.free(memory);
    await driver.synchronize();
    assert.isBelow(driver.reservedBytes(), MiB);
    await busy.close();
  });

  it("ends uploads in line when the device is lost or closed", async () => {
    for (const [how, code] of [
      ["lost", "DEVICE_LOST"],
      ["closed", "DISPOSED"],
    ] as const) {
      const ended = await TestDevice.open();
      const memory = ended.driver.alloc(LONG, false);
      const source = pattern(LONG - (LONG % 4), 13);
      const uploads = Array.from({ length: 5 }, () => codeOf(ended.driver.upload(memory, 0, source)));
      if (how === "lost") (ended.driver.native() as GPUDevice).destroy();
      else await ended.driver.close();
      assert.deepEqual(await Promise.all(uploads), new Array(5).fill(code), how);
      if (how === "lost") {
        assert.equal(await codeOf(ended.driver.upload(memory, 0, source)), code);
        await ended.driver.close();
      }
    }
  });

  it("ends long reads and reads in line when the device is lost or closed", async () => {
    for (const [how, code] of [
      ["lost", "DEVICE_LOST"],
      ["closed", "DISPOSED"],
    ] as const) {
      const ended = await TestDevice.open();
      const memory = ended.upload(pattern(LONG, 6));
      const reads = Array.from({ length: 5 }, () => codeOf(ended.download(memory, 0, LONG)));
      if (how === "lost") (ended.driver.native() as GPUDevice).destroy();
      else await ended.driver.close();
      assert.deepEqual(await Promise.all(reads), new Array(5).fill(code), how);
      if (how === "lost") {
        assert.equal(await codeOf(ended.download(memory, 0, LONG)), code);
        await ended.driver.close();
      }
    }
  });

  it("rejects a long read when the device refuses a piece of it, and serves the next one", async () => {
    const faulty = await TestDevice.open();
    const { driver } = faulty;
    const content = pattern(LONG, 8);
    const [memory, broken] = [faulty.upload(content), driver.alloc(8, false)];
    const copy = () =>
      driver.copy({ memory, byteOffset: 0, byteLength: 8 }, { memory: broken, byteOffset: 0, byteLength: 8 });
    // Commands whose kernels are still being compiled come in another batch.
    copy();
    driver.write(memory, 0, content);
    await driver.synchronize();
    broken.buffer.destroy();
    // Recorded in the same batch as the first piece, and refused with it.
    const refused = withoutTime(() => {
      copy();
      return faulty.download(memory, 0, LONG);
    });
    const next = faulty.download(memory, 1, LONG - 1);
    assert.equal(await codeOf(refused), "DEVICE_ERROR");
    assertSame(await next, content.subarray(1), "the next read");
    await driver.close();
  });

  it("serves the reads behind one whose destination is gone", async () => {
    const own = await TestDevice.open();
    const content = pattern(LONG, 9);
    const memory = own.upload(content);
    const gone = new Uint8Array(LONG);
    const first = own.driver.read(gone, memory, 0);
    const next = own.download(memory, 0, LONG);
    structuredClone(gone.buffer, { transfer: [gone.buffer] });
    assert.equal(await codeOf(first), "DEVICE_ERROR");
    assertSame(await next, content, "the next read");
    await own.close();
  });
});
