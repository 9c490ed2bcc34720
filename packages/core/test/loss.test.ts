import { type BackendError, BackendError as CoreError, createBackend } from "@backplane/core";
import { assert } from "chai";
import { FakeDriver, gate, noPool, openFake, rejects, settle, throws } from "./support/fake-driver.js";
import { retryInListener } from "./support/losing.js";

describe("init after a loss", () => {
  it("closes what is left and opens a fresh device, once for all who ask", async () => {
    const { driver, backend } = await openFake();
    const before = backend.init();
    driver.events!.lost("power");
    const first = backend.init();
    assert.notEqual(first, before);
    assert.equal(backend.init(), first);
    throws("DEVICE_LOST", () => backend.alloc(4));
    await rejects("DEVICE_LOST", backend.synchronize());
    await first;
    assert.equal(backend.init(), first);
    assert.deepEqual([driver.opened, driver.closed], [2, 1]);
    const handle = backend.alloc(4);
    backend.fill(handle, 7, 4, "u8");
    const bytes = new Uint8Array(4);
    await backend.copyDtoH(bytes, handle);
    assert.deepEqual([...bytes], [7, 7, 7, 7]);
    await backend.dispose();
    assert.deepEqual([driver.opened, driver.closed], [2, 2]);
  });

  it("ends all handles from before, and says why", async () => {
    const { driver, backend } = await openFake();
    const freed = backend.alloc(4);
    backend.free(freed);
    const old = [backend.alloc(64), backend.alloc(0)];
    driver.events!.lost("power");
    await backend.init();
    assert.deepEqual(backend.memory(), {
      liveAllocations: 0,
      liveBytes: 0,
      peakBytes: 64,
      reservedBytes: 0,
      ...noPool,
    });
    const fresh = backend.alloc(8);
    for (const handle of [...old, freed]) {
      assert.isBelow(handle, fresh, "numbers are never used again");
      const error = throws("INVALID_HANDLE", () => backend.free(handle), "handle");
      assert.match(error.message, /from before the device was lost/);
      throws("INVALID_HANDLE", () => backend.copyHtoD(handle, new Uint8Array(1)), "destination");
      throws("INVALID_HANDLE", () => backend.native(handle), "handle");
      await rejects("INVALID_HANDLE", backend.copyDtoH(new Uint8Array(0), handle), "source");
    }
    backend.free(fresh);
    assert.match(throws("INVALID_HANDLE", () => backend.free(fresh)).message, /it was freed/);
    throws("INVALID_HANDLE", () => backend.free(Symbol() as unknown as typeof fresh));
    assert.deepEqual(backend.memory(), {
      liveAllocations: 0,
      liveBytes: 0,
      peakBytes: 64,
      reservedBytes: 0,
      ...noPool,
    });
    await backend.dispose();
  });

  it("tells listeners of each loss once, and late ones only while it lasts", async () => {
    const { driver, backend } = await openFake();
    const heard: string[] = [];
    const stop = backend.onLost((error) => heard.push(error.message));
    driver.events!.lost("first");
    driver.events!.lost("again");
    await backend.init();
    backend.onLost(() => heard.push("late"));
    assert.deepEqual(heard, ["fake: the device was lost: first"]);
    stop();
    backend.onLost((error) => heard.push(error.message));
    driver.events!.lost("second");
    assert.deepEqual(heard.slice(1), ["late", "fake: the device was lost: second"]);
    const late: string[] = [];
    backend.onLost((error) => late.push(error.message));
    assert.deepEqual(late, ["fake: the device was lost: second"]);
    await backend.init();
    await backend.dispose();
  });

  it("does not hear what an old device still reports", async () => {
    const { driver, backend } = await openFake();
    const heard: string[] = [];
    backend.onLost((error) => heard.push(error.message));
    backend.onError((error) => heard.push(error.message));
    const old = driver.events!;
    old.lost("power");
    old.error(new CoreError("DEVICE_ERROR", "while lost"));
    const opening = gate();
    driver.opening = () => opening.promise;
    const opened = backend.init();
    await settle();
    old.error(new CoreError("DEVICE_ERROR", "while the next one opens"));
    old.lost("while the next one opens");
    opening.open();
    await opened;
    const handle = backend.alloc(4);
    old.lost("late");
    old.error(new CoreError("DEVICE_ERROR", "late"));
    await backend.synchronize();
    await backend.copyDtoH(new Uint8Array(4), handle);
    assert.deepEqual(heard, ["fake: the device was lost: power"]);
    await backend.dispose();
  });

  it("forgets a fault of the old device that no promise has reported", async () => {
    const { driver, backend } = await openFake();
    driver.events!.error(new CoreError("DEVICE_ERROR", "kernel failed"));
    driver.events!.lost("power");
    await backend.init();
    await backend.synchronize();
    await backend.dispose();
  });

  it("leaves reads of the old device rejected, however they end", async () => {
    const { driver, backend } = await openFake();
    const handle = backend.alloc(4);
    const readings = [gate(), gate()];
    driver.reading = () => readings[0]!.promise;
    const first = rejects("DEVICE_LOST", backend.copyDtoH(new Uint8Array(4), handle));
    driver.reading = () => readings[1]!.promise;
    const second = rejects("DEVICE_LOST", backend.copyDtoH(new Uint8Array(4), handle));
    driver.events!.lost("power");
    driver.reading = async () => {};
    await backend.init();
    readings[0]!.open();
    readings[1]!.fail(new Error("closed"));
    await Promise.all([first, second]);
    await backend.synchronize();
    await backend.dispose();
  });

  it("may fail and be tried again; the backend stays lost meanwhile", async () => {
    const { driver, backend } = await openFake();
    const lost: BackendError[] = [];
    backend.onLost((error) => lost.push(error));
    driver.events!.lost("power");
    driver.opening = async () => {
      throw new Error("still no power");
    };
    for (let attempt = 0; attempt < 2; attempt++) {
      assert.match((await rejects("UNSUPPORTED", backend.init())).message, /still no power/);
      throws("DEVICE_LOST", () => backend.alloc(4));
      assert.equal(backend.capabilities.device.name, "fake");
    }
    assert.equal(driver.closed, 1, "there is nothing more to close");
    driver.opening = async () => {};
    await backend.init();
    backend.alloc(4);
    assert.lengthOf(lost, 1);
    await backend.dispose();
    assert.deepEqual([driver.opened, driver.closed], [4, 2]);
  });

  it("does not care how the lost device closes", async () => {
    for (const asynchronous of [true, false]) {
      const { driver, backend } = await openFake();
      driver.events!.lost("power");
      const { close } = driver;
      driver.close = () => {
        driver.closed++;
        if (asynchronous) return Promise.reject(new Error("no answer"));
        throw new Error("no answer");
      };
      await backend.init();
      driver.close = close;
      backend.alloc(4);
      await backend.dispose();
      assert.equal(driver.closed, 2);
    }
  });

  it("may be asked for by a listener, before the driver has finished its report", async () => {
    const { driver, backend } = await openFake();
    const order: string[] = [];
    let opened: Promise<void> | undefined;
    driver.closing = async () => {
      order.push("closed");
    };
    backend.onLost(() => {
      opened = backend.init();
      order.push("listener");
    });
    driver.events!.lost("power");
    order.push("reported");
    await opened;
    assert.deepEqual(order, ["listener", "reported", "closed"]);
    backend.alloc(4);
    await backend.dispose();
  });

  it("rejects where the fresh device is lost while it is opened, which is another loss", async () => {
    const { driver, backend } = await openFake();
    const lost: string[] = [];
    backend.onLost((error) => lost.push(error.message));
    driver.events!.lost("first");
    driver.opening = async () => driver.events!.lost("second");
    assert.match((await rejects("DEVICE_LOST", backend.init())).message, /second/);
    assert.lengthOf(lost, 2);
    throws("DEVICE_LOST", () => backend.alloc(4));
    driver.opening = async () => {};
    await backend.init();
    backend.alloc(4);
    await backend.dispose();
    assert.deepEqual([driver.opened, driver.closed], [3, 3]);
  });

  it("goes well where a listener retries in the middle of a failed attempt", async () => {
    const driver = new FakeDriver();
    let losses = 0;
    driver.opening = async () => {
      if (losses++ === 0) driver.events!.lost("at once");
    };
    await retryInListener(createBackend(driver));
    assert.deepEqual([driver.opened, driver.closed], [2, 2]);
  });

  for (const held of ["close", "open"] as const)
    it(`gives up when dispose is called while the driver is to ${held}`, async () => {
      const { driver, backend } = await openFake();
      const barrier = gate();
      driver.events!.lost("power");
      if (held === "close") driver.closing = () => barrier.promise;
      else driver.opening = () => barrier.promise;
      const opened = backend.init();
      await settle();
      const disposed = backend.dispose();
      throws("DISPOSED", () => backend.alloc(4));
      barrier.open();
      await rejects("DISPOSED", opened);
      await disposed;
      assert.deepEqual([driver.opened, driver.closed], held === "close" ? [1, 1] : [2, 2]);
      assert.isFalse(driver.isOpen);
    });

  it("is not needed to dispose, which closes the driver once", async () => {
    const { driver, backend } = await openFake();
    driver.events!.lost("power");
    await backend.dispose();
    await backend.dispose();
    assert.deepEqual([driver.opened, driver.closed], [1, 1]);
    await rejects("DISPOSED", backend.init());
    backend.onLost(() => assert.fail("nothing is lost any more"));
  });
});

describe("adopt", () => {
  it("gives a handle for memory of the driver, which free hands back", async () => {
    const { driver, backend } = await openFake();
    const memory = driver.alloc(16, true);
    const handle = backend.adopt(memory, 12);
    assert.deepInclude(backend.memory(), { liveAllocations: 1, liveBytes: 12, peakBytes: 12 });
    assert.equal(backend.native(handle), memory);
    backend.fill(handle, 3, 12, "u8");
    throws("OUT_OF_BOUNDS", () => backend.fill(handle, 3, 13, "u8"));
    assert.deepEqual([...memory.bytes], [3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 0, 0, 0, 0]);
    backend.free(handle);
    assert.isFalse(driver.live.has(memory));
    throws("INVALID_HANDLE", () => backend.free(handle));
    assert.deepInclude(backend.memory(), { liveAllocations: 0, liveBytes: 0 });
    await backend.dispose();
  });

  it("refuses what is no size, and what comes at the wrong time", async () => {
    const driver = new FakeDriver();
    const backend = createBackend(driver);
    const memory = driver.alloc(4, true);
    throws("NOT_INITIALIZED", () => backend.adopt(memory, -1));
    await backend.init();
    for (const bytes of [-1, 1.5, Number.NaN, "4" as unknown as number])
      throws("INVALID_ARGUMENT", () => backend.adopt(memory, bytes), "bytes");
    assert.equal(backend.memory().liveAllocations, 0);
    driver.events!.lost("power");
    throws("DEVICE_LOST", () => backend.adopt(memory, 4));
    await backend.dispose();
    throws("DISPOSED", () => backend.adopt(memory, 4));
  });
});
