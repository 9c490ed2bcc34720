import { assert } from "chai";
import { type DeviceMemory, MemoryPool, type PendingRead } from "#src/runtime/memory.js";

/** A device with so many bytes, which remembers what it made and destroyed. */
class SmallDevice {
  readonly made: number[] = [];
  readonly destroyed: number[] = [];
  readonly refusals: [bytes: number, reason: string, operation: string][] = [];
  readonly pool: MemoryPool;
  batch = 1;
  #heldBytes = 0;
  #error: { readonly message: string } | null = null;

  constructor(bytes: number, poolBytes: number) {
    const device = {
      createBuffer: ({ size }: { size: number }) => {
        const isRefused = this.#heldBytes + size > bytes;
        if (isRefused) this.#error = { message: "no room" };
        else this.#heldBytes += size;
        this.made.push(size);
        return {
          size,
          destroy: () => {
            if (!isRefused) this.#heldBytes -= size;
            this.destroyed.push(size);
          },
        };
      },
      pushErrorScope: () => {
        this.#error = null;
      },
      popErrorScope: () => Promise.resolve(this.#error),
    };
    this.pool = new MemoryPool({
      device: device as unknown as GPUDevice,
      maxBytes: 2 ** 30,
      poolBytes,
      currentBatch: () => this.batch,
      currentOperation: () => "attention",
      onDestroy: () => {},
      onOutOfMemory: (...refusal) => this.refusals.push(refusal),
    });
  }

  /** Lets the device's answers arrive. */
  async answers(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve));
  }
}

describe("webgpu memory pool", () => {
  it("lends a free buffer that is little larger, and promises zeros in it", () => {
    const { pool, made } = new SmallDevice(2 ** 30, 2 ** 30);
    const first = pool.acquire(9 * 2 ** 20, false);
    assert.isFalse(first.stale);
    pool.release(first);
    // Too small for it by more than an eighth, and too large.
    const [smaller, larger] = [pool.acquire(7 * 2 ** 20, true), pool.acquire(9 * 2 ** 20 + 1, true)];
    assert.notStrictEqual(smaller, first);
    assert.notStrictEqual(larger, first);
    assert.lengthOf(made, 3);
    const second = pool.acquire(8 * 2 ** 20 + 5, true);
    assert.strictEqual(second, first);
    assert.isTrue(second.stale);
    assert.equal(second.bytes, 8 * 2 ** 20 + 5);
    assert.lengthOf(made, 3);
    // The exact class goes first.
    const exact = pool.acquire(8 * 2 ** 20, false);
    for (const memory of [exact, second]) pool.release(memory);
    assert.strictEqual(pool.acquire(8 * 2 ** 20, false), exact);
    assert.strictEqual(pool.acquire(8 * 2 ** 20, false), first);
  });

  it("makes no scratch anew for calls that it has room for one by one", () => {
    const MiB = 2 ** 20;
    const device = new SmallDevice(2 ** 40, 300 * MiB);
    const { pool, made, destroyed } = device;
    const call = (sizes: readonly number[]) => {
      const lent = sizes.map((size) => pool.scratch(size * MiB));
      assert.equal(new Set(lent).size, sizes.length);
      for (const [i, memory] of lent.entries()) {
        assert.isAtLeast(memory.capacity, sizes[i]! * MiB);
        assert.equal(memory.bytes, sizes[i]! * MiB);
      }
      for (const memory of lent) pool.release(memory);
    };
    const calls = [
      [100, 180, 20],
      [60, 40],
      [150, 20, 90],
    ];
    for (const sizes of calls) call(sizes);
    // What the first call has left is lent, as beside it the pool would keep nothing.
    assert.deepEqual(made, [100 * MiB, 180 * MiB, 20 * MiB]);
    for (const sizes of calls) call(sizes);
    assert.lengthOf(made, 3);
    assert.deepEqual(destroyed, []);
    // Others keep what they take for longer, and do not get so much more than they need.
    pool.acquire(60 * MiB, false);
    assert.equal(made.at(-1), 60 * MiB);
  });

  it("makes new scratch as long as it can keep all", () => {
    const MiB = 2 ** 20;
    const { pool, made } = new SmallDevice(2 ** 40, 300 * MiB);
    const large = pool.scratch(200 * MiB);
    pool.release(large);
    const small = pool.scratch(60 * MiB);
    assert.notStrictEqual(small, large);
    // 200 are free, and 60 are lent and will come back.
    assert.strictEqual(pool.scratch(50 * MiB), large);
    assert.lengthOf(made, 2);
  });

  it("keeps small requests together, whatever their sizes", () => {
    const { pool, made } = new SmallDevice(2 ** 30, 2 ** 30);
    for (let bytes = 1; bytes <= 512; bytes++) pool.release(pool.acquire(bytes, false));
    assert.deepEqual(made, [256, 512]);
  });

  it("names what it has no memory for, gives up what it kept, and never lends what was refused", async () => {
    const MiB = 2 ** 20;
    const device = new SmallDevice(100 * MiB, 2 ** 30);
    const { pool } = device;
    const kept = [30, 20].map((size) => pool.acquire(size * MiB, false));
    const live = pool.acquire(40 * MiB, false);
    for (const memory of kept) pool.release(memory);
    const refused = pool.acquire(60 * MiB, false);
    assert.deepEqual(device.refusals, []);
    await device.answers();
    assert.deepEqual(device.refusals, [[60 * MiB, "no room", "attention"]]);
    assert.sameMembers(device.destroyed, [30 * MiB, 20 * MiB]);
    pool.release(refused);
    assert.include(device.destroyed, 60 * MiB);
    const second = pool.acquire(60 * MiB, false);
    assert.notStrictEqual(second, refused);
    await device.answers();
    assert.lengthOf(device.refusals, 1);
    assert.equal(pool.reservedBytes, 100 * MiB);
    pool.release(live);
    pool.release(second);
    // It is known by now how much there is: what is free goes before anything is refused.
    const third = pool.acquire(90 * MiB, false);
    await device.answers();
    assert.lengthOf(device.refusals, 1);
    assert.equal(pool.reservedBytes, 90 * MiB);
    pool.release(third);
  });

  it("destroys a refused buffer only after the commands that use it", async () => {
    const device = new SmallDevice(100, 2 ** 30);
    const refused = device.pool.acquire(1000, false);
    refused.batch = device.batch;
    await device.answers();
    device.pool.release(refused);
    assert.deepEqual(device.destroyed, []);
    device.batch++;
    device.pool.afterSubmit();
    assert.lengthOf(device.destroyed, 1);
    assert.equal(device.pool.reservedBytes, 0);
  });

  it("holds a buffer back from its next owner while something reads it", () => {
    const { pool, destroyed } = new SmallDevice(2 ** 30, 0);
    const memory = pool.acquire(4096, false);
    const reads: PendingRead[] = [1, 2].map(() => ({ detach: () => {} }));
    for (const read of reads) memory.pendingReads.add(read);
    pool.release(memory);
    const others: DeviceMemory[] = [];
    for (const read of reads) {
      others.push(pool.acquire(4096, false));
      assert.notStrictEqual(others.at(-1), memory);
      assert.deepEqual(destroyed, []);
      pool.letGo(memory, read);
    }
    assert.deepEqual(destroyed, [4096]);
  });
});
