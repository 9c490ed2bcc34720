import {
  BackendError,
  type BackendProvider,
  BackendRegistry,
  createBackend,
  type DriverBackend,
  type DriverDescription,
  type DriverEvents,
  type PoolStatistics,
  SwitchableBackend,
} from "@backplane/core";
import { assert } from "chai";
import {
  FakeDriver,
  type FakeMemory,
  fakeProvider,
  gate,
  noPool,
  openFake,
  rejects,
  throws,
} from "./support/fake-driver.js";

/** A driver that has all that a driver may leave out. */
class AbleDriver extends FakeDriver {
  statistics: PoolStatistics = { pooledBytes: 96, poolHits: 2, poolMisses: 1 };
  reads = true;
  reporting: () => void = () => {};

  override async open(events: DriverEvents): Promise<DriverDescription> {
    return { ...(await super.open(events)), synchronousReads: this.reads };
  }

  flush(): void {
    this.calls.push("flush");
  }

  pool(): PoolStatistics {
    return this.statistics;
  }

  trim(): void {
    this.calls.push("trim");
    this.statistics = { ...this.statistics, pooledBytes: 0 };
  }

  readSync(destination: Uint8Array<ArrayBufferLike>, source: FakeMemory, byteOffset: number): void {
    this.calls.push(`read at once ${byteOffset} ${destination.length}`);
    this.reporting();
    destination.set(source.bytes.subarray(byteOffset, byteOffset + destination.length));
  }
}

async function openAble(): Promise<{ driver: AbleDriver; backend: DriverBackend<FakeMemory> }> {
  const driver = new AbleDriver();
  const backend = createBackend(driver);
  await backend.init();
  return { driver, backend };
}

function ableProvider(name: string, drivers: AbleDriver[]): BackendProvider {
  return {
    ...{ name, probe: async () => ({ available: false, reason: "nobody asks" }) },
    create() {
      const driver = new AbleDriver({ name });
      drivers.push(driver);
      return createBackend(driver);
    },
  };
}

describe("state", () => {
  it("changes when a device is open, is lost, and when dispose is called", async () => {
    const driver = new FakeDriver();
    const backend = createBackend(driver);
    assert.equal(backend.state, "new");
    driver.opening = () => Promise.reject(new Error("not now"));
    const failing = backend.init();
    assert.equal(backend.state, "new");
    await rejects("UNSUPPORTED", failing);
    assert.equal(backend.state, "new");
    driver.opening = async () => {};
    await backend.init();
    assert.equal(backend.state, "open");
    const heard: string[] = [];
    backend.onLost(() => heard.push(backend.state));
    driver.events!.lost("gone");
    assert.deepEqual(heard, ["lost"]);
    const reopening = backend.init();
    assert.equal(backend.state, "lost");
    await reopening;
    assert.equal(backend.state, "open");
    const disposed = backend.dispose();
    assert.equal(backend.state, "disposed");
    await disposed;
    assert.equal(backend.state, "disposed");
  });

  it("of a SwitchableBackend is that of what it has in use, also while it moves", async () => {
    const one = fakeProvider("one");
    const backend = new SwitchableBackend(new BackendRegistry([one, fakeProvider("two")]));
    const opening = backend.init();
    assert.equal(backend.state, "new");
    await opening;
    assert.equal(backend.state, "open");
    backend.alloc(4);
    const moving = backend.use("two");
    assert.equal(backend.state, "open");
    await moving;
    const [old] = one.drivers;
    old!.events!.lost("after it was closed");
    assert.equal(backend.state, "open");
    (backend.native() as FakeDriver).events!.lost("gone");
    assert.equal(backend.state, "lost");
    await backend.use("one");
    assert.equal(backend.state, "open");
    const disposed = backend.dispose();
    assert.equal(backend.state, "disposed");
    await disposed;
  });
});

describe("flush, trim and the pool", () => {
  it("are the driver's", async () => {
    const { driver, backend } = await openAble();
    assert.deepInclude(backend.memory(), { pooledBytes: 96, poolHits: 2, poolMisses: 1 });
    assert.isUndefined(backend.flush());
    assert.isUndefined(backend.trim());
    assert.deepEqual(driver.calls, ["flush", "trim"]);
    assert.deepInclude(backend.memory(), { pooledBytes: 0, poolHits: 2, poolMisses: 1 });
    driver.trim = () => {
      throw new Error("the bus is gone");
    };
    assert.match(throws("DEVICE_ERROR", () => backend.trim()).message, /^trim: the bus is gone/);
    await backend.dispose();
    assert.deepInclude(backend.memory(), noPool);
    for (const [name, call] of [
      ["flush", () => backend.flush()],
      ["trim", () => backend.trim()],
    ] as const)
      assert.match(throws("DISPOSED", call).message, new RegExp(`^${name}: `));
  });

  it("are nothing where a driver leaves them out", async () => {
    const { driver, backend } = await openFake();
    backend.flush();
    backend.trim();
    assert.deepInclude(backend.memory(), noPool);
    assert.isFalse(backend.capabilities.synchronousReads);
    assert.isEmpty(driver.calls);
    await backend.dispose();
  });

  it("follow the backend in use, and wait their turn while it is exchanged", async () => {
    const drivers: AbleDriver[] = [];
    const providers = [ableProvider("one", drivers), ableProvider("two", drivers)];
    const backend = new SwitchableBackend(new BackendRegistry(providers));
    assert.deepInclude(backend.memory(), noPool);
    await backend.init();
    assert.deepInclude(backend.memory(), { pooledBytes: 96, poolHits: 2, poolMisses: 1 });
    const synchronizing = gate();
    drivers[0]!.synchronizing = () => synchronizing.promise;
    const swapped = backend.use("two");
    while (!drivers[0]!.calls.includes("synchronize")) await undefined;
    backend.trim();
    backend.flush();
    assert.notInclude(drivers[0]!.calls, "trim");
    synchronizing.open();
    await swapped;
    assert.notInclude(drivers[0]!.calls, "trim");
    assert.deepEqual(drivers[1]!.calls.slice(-2), ["trim", "flush"]);
    assert.deepInclude(backend.memory(), { pooledBytes: 0 });
    await backend.dispose();
    throws("DISPOSED", () => backend.flush());
    throws("DISPOSED", () => backend.trim());
  });
});

describe("copyDtoHSync", () => {
  it("reads through the driver, and not where there is nothing to read", async () => {
    const { driver, backend } = await openAble();
    assert.isTrue(backend.capabilities.synchronousReads);
    const handle = backend.alloc(8);
    backend.copyHtoD(handle, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
    const target = new Uint16Array(4);
    backend.copyDtoHSync(new DataView(target.buffer, 2, 3), { handle, byteOffset: 5 });
    assert.deepEqual([...new Uint8Array(target.buffer)], [0, 0, 6, 7, 8, 0, 0, 0]);
    backend.copyDtoHSync(new Uint8Array(0), { handle, byteOffset: 8 });
    assert.deepEqual(driver.calls.slice(2), ["read at once 5 3"]);
    await backend.dispose();
  });

  it("is refused, with what to do instead, where the driver cannot", async () => {
    const cannot = new AbleDriver();
    cannot.reads = false;
    // One that declares what it does not have would answer with nothing.
    const boasts = new AbleDriver();
    Object.assign(boasts, { readSync: undefined });
    for (const driver of [cannot, boasts]) {
      const backend = createBackend(driver);
      throws("NOT_INITIALIZED", () => backend.copyDtoHSync(new Uint8Array(1), 1 as never));
      await backend.init();
      assert.isFalse(backend.capabilities.synchronousReads);
      const { message } = throws("UNSUPPORTED", () => backend.copyDtoHSync([] as never, 1 as never));
      assert.match(message, /^copyDtoHSync: fake .*synchronousReads is false.*await copyDtoH\(\) instead$/);
      await backend.dispose();
    }
  });

  it("throws faults as copyDtoH rejects with them, each once", async () => {
    const { driver, backend } = await openAble();
    const handle = backend.alloc(4);
    const read = () => backend.copyDtoHSync(new Uint8Array(4), handle);
    const report = (message: string) => driver.events!.error(new BackendError("DEVICE_ERROR", message));
    report("before");
    assert.equal(throws("DEVICE_ERROR", read).message, "before");
    read();
    driver.reporting = () => report("meanwhile");
    assert.equal(throws("DEVICE_ERROR", read).message, "meanwhile");
    driver.reporting = () => {
      report("the reason");
      throw new Error("what came of it");
    };
    assert.equal(throws("DEVICE_ERROR", read).message, "the reason");
    driver.reporting = () => {
      throw new Error("what came of it");
    };
    assert.match(throws("DEVICE_ERROR", read).message, /^copyDtoHSync: what came of it/);
    driver.reporting = () => {};
    await backend.synchronize();
    report("earlier");
    throws("DEVICE_ERROR", () => backend.copyDtoHSync(new Uint8Array(0), handle));
    driver.reporting = () => {
      driver.events!.lost("gone");
      throw new BackendError("DEVICE_LOST", "the device was lost");
    };
    throws("DEVICE_LOST", read);
    throws("DEVICE_LOST", read);
    await backend.dispose();
    throws("DISPOSED", read);
  });

  it("follows the backend in use, and is BUSY while allocations move", async () => {
    const drivers: AbleDriver[] = [];
    const providers = [ableProvider("one", drivers), fakeProvider("two")];
    const backend = new SwitchableBackend(new BackendRegistry(providers));
    throws("NOT_INITIALIZED", () => backend.copyDtoHSync(new Uint8Array(1), 1 as never));
    await backend.init();
    const handle = backend.alloc(4);
    backend.copyHtoD(handle, Uint8Array.of(1, 2, 3, 4));
    const target = new Uint8Array(2);
    const read = () => backend.copyDtoHSync(target, { handle, byteOffset: 1 });
    read();
    assert.deepEqual([...target], [2, 3]);
    throws("OUT_OF_BOUNDS", () => backend.copyDtoHSync(new Uint8Array(5), handle), "source");
    throws("INVALID_HANDLE", () => backend.copyDtoHSync(target, 2 as never), "source");
    const synchronizing = gate();
    drivers[0]!.synchronizing = () => synchronizing.promise;
    const swapped = backend.use("two");
    while (!drivers[0]!.calls.includes("synchronize")) await undefined;
    assert.match(throws("BUSY", read).message, /^copyDtoHSync: .*await use\(\)/);
    synchronizing.open();
    await swapped;
    throws("UNSUPPORTED", read);
    await backend.use("one");
    target.fill(0);
    read();
    assert.deepEqual([...target], [2, 3]);
    drivers.at(-1)!.events!.lost("gone");
    throws("DEVICE_LOST", read);
    await backend.use("one");
    assert.match(throws("DEVICE_LOST", read).message, /has lost its contents/);
    await backend.dispose();
    throws("DISPOSED", read);
  });
});
