import {
  BackendError,
  type BackendProvider,
  BackendRegistry,
  type ComputeBackend,
  createBackend,
  type PoolStatistics,
  SwitchableBackend,
} from "@backplane/core";
import { assert } from "chai";
import { FakeDriver, rejects, throws } from "./support/fake-driver.js";

class ReusingDriver extends FakeDriver {
  readonly reusesMemory = true;
  statistics: PoolStatistics = { pooledBytes: 96, poolHits: 2, poolMisses: 1 };

  pool(): PoolStatistics {
    return this.statistics;
  }

  /** Calls of `alloc` and `free` since the last look. */
  taken(): readonly string[] {
    return this.calls.splice(0).filter((call) => /^(alloc|free)/.test(call));
  }
}

async function openReusing() {
  const drivers: ReusingDriver[] = [];
  const provider = (name: string): BackendProvider => ({
    ...{ name, probe: async () => ({ available: false, reason: "nobody asks" }) },
    create() {
      const driver = new ReusingDriver({ name });
      drivers.push(driver);
      return createBackend(driver);
    },
  });
  const backend = new SwitchableBackend(new BackendRegistry([provider("a"), provider("b")]));
  await backend.init();
  return { backend, drivers, driver: drivers[0]! };
}

const unzeroed = { zero: false } as const;

describe("Small allocations of a SwitchableBackend whose handles have ended", () => {
  it("are the next ones of as many bytes, with handles of their own", async () => {
    const { backend, driver } = await openReusing();
    const first = backend.alloc(8);
    backend.free(first);
    const second = backend.alloc(8, unzeroed);
    assert.notEqual(second, first);
    assert.deepEqual(driver.taken(), ["alloc 8 true"]);
    throws("INVALID_HANDLE", () => backend.fill(first, 0, 2));
    backend.fill(second, 0, 2);
    assert.deepInclude(backend.memory(), { liveAllocations: 1, liveBytes: 8, peakBytes: 8 });
    backend.free(second);
    throws("INVALID_HANDLE", () => backend.free(second));
    await backend.dispose();
  });

  it("count as pooled, and `trim` frees them", async () => {
    const { backend, driver } = await openReusing();
    for (const handle of [backend.alloc(8), backend.alloc(24)]) backend.free(handle);
    assert.deepInclude(backend.memory(), { liveAllocations: 0, pooledBytes: 96 + 32, reservedBytes: 32 });
    backend.trim();
    assert.deepEqual(driver.taken(), ["alloc 8 true", "alloc 24 true", "free 8", "free 24"]);
    assert.deepInclude(backend.memory(), { pooledBytes: 96, reservedBytes: 0 });
    await backend.dispose();
  });

  it("are not those that must be zero, have another size, are large, or are empty", async () => {
    const { backend, driver } = await openReusing();
    const sizes = [8, 0, 2 ** 16 + 4];
    for (const bytes of sizes) backend.free(backend.alloc(bytes));
    assert.deepEqual(driver.taken(), ["alloc 8 true", "alloc 65540 true", "free 65540"]);
    backend.alloc(8);
    backend.alloc(4, unzeroed);
    backend.alloc(65540, unzeroed);
    assert.deepEqual(driver.taken(), ["alloc 8 true", "alloc 4 false", "alloc 65540 false"]);
    await backend.dispose();
  });

  it("are few", async () => {
    const { backend, driver } = await openReusing();
    const handles = Array.from({ length: 6 }, () => backend.alloc(8));
    for (const handle of handles) backend.free(handle);
    assert.equal(driver.live.size, 4);
    await backend.dispose();
  });

  it("do not hide wrong options", async () => {
    const { backend } = await openReusing();
    backend.free(backend.alloc(8));
    throws("INVALID_ARGUMENT", () => backend.alloc(8, { zero: false, size: 1 } as never), "size");
    throws("INVALID_ARGUMENT", () => backend.alloc(8, null as never));
    throws("INVALID_ARGUMENT", () => backend.alloc("8" as never, unzeroed));
    await backend.dispose();
  });

  it("make room when there is none", async () => {
    const { backend, driver } = await openReusing();
    backend.free(backend.alloc(8));
    driver.allocating = () => {
      if (driver.live.size > 0) throw new BackendError("OUT_OF_MEMORY", "no room");
    };
    const handle = backend.alloc(16, unzeroed);
    assert.deepEqual(driver.taken(), ["alloc 8 true", "alloc 16 false", "free 8", "alloc 16 false"]);
    throws("OUT_OF_MEMORY", () => backend.alloc(16));
    backend.free(handle);
    await backend.dispose();
  });

  it("stay behind at a swap, and go with a lost device", async () => {
    const { backend, drivers } = await openReusing();
    const live = backend.alloc(4);
    backend.free(backend.alloc(8));
    const report = await backend.use("b");
    assert.equal(report.allocations, 1);
    const second = drivers.at(-1)!;
    second.taken();
    const next = backend.alloc(8, unzeroed);
    assert.deepEqual(second.taken(), ["alloc 8 false"]);
    backend.free(next);
    second.events!.lost("it was pulled out");
    throws("DEVICE_LOST", () => backend.alloc(8, unzeroed));
    const { lost } = await backend.use("a");
    assert.deepEqual(lost, [{ handle: live, bytes: 4 }]);
    const third = drivers.at(-1)!;
    third.taken();
    backend.fill(backend.alloc(8, unzeroed), 0, 2);
    assert.deepEqual(third.taken(), ["alloc 8 false"]);
    await backend.dispose();
  });

  it("no longer count once the device is lost or the backend disposed of", async () => {
    for (const end of ["loss", "dispose"]) {
      const { backend, driver } = await openReusing();
      backend.free(backend.alloc(8));
      if (end === "loss") driver.events!.lost("it was pulled out");
      else await backend.dispose();
      assert.deepInclude(backend.memory(), { liveAllocations: 0, reservedBytes: 0, pooledBytes: 0 }, end);
      await backend.dispose();
    }
  });

  it("do not hide that `alloc` lost the device", async () => {
    const { backend, driver } = await openReusing();
    backend.free(backend.alloc(8));
    driver.allocating = () => {
      driver.events!.lost("it was pulled out");
      throw new BackendError("DEVICE_LOST", "no device");
    };
    const error = throws("DEVICE_LOST", () => backend.alloc(16, unzeroed));
    assert.equal(error.operation, "alloc");
    await backend.dispose();
  });

  it("are not kept while calls wait for a swap, nor from calls then", async () => {
    const { backend, drivers } = await openReusing();
    const [kept, ended] = [backend.alloc(8), backend.alloc(8)];
    backend.free(kept);
    const swapped = backend.use("b");
    let isMoving = false;
    drivers[0]!.reading = async () => {
      isMoving = true;
      const during = backend.alloc(8, unzeroed);
      backend.fill(during, 0, 2);
      backend.free(ended);
      assert.deepInclude(backend.memory(), { liveAllocations: 1 });
    };
    await swapped;
    assert.isTrue(isMoving);
    assert.deepInclude(backend.memory(), { liveAllocations: 1, pooledBytes: 96 });
    await backend.dispose();
    await rejects("DISPOSED", backend.use("a"));
  });

  it("of a lost device that is not replaced yet are freed as before", async () => {
    const { backend, drivers } = await openReusing();
    const handle = backend.alloc(8);
    drivers[0]!.events!.lost("it was pulled out");
    await backend.use("b");
    // Its contents are lost: whoever gets it next could not use it.
    backend.free(handle);
    const next = backend.alloc(8, unzeroed);
    backend.fill(next, 0, 1);
    await backend.dispose();
  });

  it("are freed and allocated where somebody watches these calls", async () => {
    const { backend, driver } = await openReusing();
    const inner = backend.inner as { -readonly [Name in "free"]: ComputeBackend[Name] };
    const { free } = inner;
    const freed: number[] = [];
    inner.free = function (this: ComputeBackend, handle) {
      freed.push(handle);
      free.call(this, handle);
    };
    backend.free(backend.alloc(8));
    assert.equal(freed.length, 1);
    assert.deepEqual(driver.taken(), ["alloc 8 true", "free 8"]);
    await backend.dispose();
  });
});
