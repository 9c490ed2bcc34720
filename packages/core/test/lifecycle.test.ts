import {
  BackendError,
  type ComputeBackend,
  createBackend,
  type DeviceHandle,
  operationNames,
} from "@backplane/core";
import { assert } from "chai";
import { FakeDriver, gate, noPool, openFake, rejects, settle, throws } from "./support/fake-driver.js";
import { smallCall } from "./support/small-calls.js";

const handle = 1 as DeviceHandle;

/** Every call that needs an open device, with arguments that are wrong in other ways too. */
const calls: Readonly<Record<string, (backend: ComputeBackend) => unknown>> = {
  native: (backend) => backend.native(),
  alloc: (backend) => backend.alloc(-1),
  free: (backend) => backend.free(handle),
  copyHtoD: (backend) => backend.copyHtoD(handle, new Uint8Array(1)),
  copyDtoD: (backend) => backend.copyDtoD(handle, handle, 1),
  fill: (backend) => backend.fill(handle, 0, 1),
  ...Object.fromEntries(
    operationNames.map((name) => [
      name,
      (backend: ComputeBackend) => backend.run(name, smallCall(name, () => handle) as never),
    ]),
  ),
};

async function refusesEverything(backend: ComputeBackend, code: string): Promise<void> {
  for (const [name, call] of Object.entries(calls))
    assert.equal(throws(code, () => call(backend)).operation, name);
  await rejects(code, backend.synchronize());
  await rejects(code, backend.copyDtoH(new Uint8Array(1), handle));
}

describe("lifecycle of createBackend", () => {
  it("refuses everything before init has resolved", async () => {
    const driver = new FakeDriver();
    const opening = gate();
    driver.opening = () => opening.promise;
    const backend = createBackend(driver);
    await refusesEverything(backend, "NOT_INITIALIZED");
    throws("NOT_INITIALIZED", () => backend.capabilities);
    const initialised = backend.init();
    await refusesEverything(backend, "NOT_INITIALIZED");
    throws("NOT_INITIALIZED", () => backend.capabilities);
    assert.deepEqual(backend.memory(), {
      liveAllocations: 0,
      liveBytes: 0,
      peakBytes: 0,
      reservedBytes: 0,
      ...noPool,
    });
    opening.open();
    await initialised;
    assert.equal(backend.capabilities.device.name, "fake");
    assert.deepEqual(backend.capabilities.dtypes, ["f32", "f16"]);
    assert.equal(backend.name, "fake");
    await backend.dispose();
  });

  it("opens once however often init is called", async () => {
    const driver = new FakeDriver();
    const backend = createBackend(driver);
    const first = backend.init();
    assert.equal(backend.init(), first);
    await first;
    assert.equal(backend.init(), first);
    assert.equal(driver.opened, 1);
    await backend.dispose();
  });

  it("can be initialised after a failure, which all callers of that time see", async () => {
    const driver = new FakeDriver();
    driver.opening = async () => {
      throw new Error("no such device");
    };
    const backend = createBackend(driver);
    const both = [backend.init(), backend.init()];
    for (const attempt of both) {
      const error = await rejects("UNSUPPORTED", attempt);
      assert.match(error.message, /no such device/);
      assert.equal(error.operation, "init");
    }
    driver.opening = async () => {
      throw new BackendError("OUT_OF_MEMORY", "too small");
    };
    await rejects("OUT_OF_MEMORY", backend.init());
    await refusesEverything(backend, "NOT_INITIALIZED");
    driver.opening = async () => {};
    await backend.init();
    backend.alloc(4);
    await backend.dispose();
    assert.equal(driver.closed, 1);
  });

  it("is not touched by what the device of a failed attempt still reports", async () => {
    const driver = new FakeDriver();
    driver.opening = async () => {
      driver.events!.lost("it was destroyed when opening failed");
      throw new Error("too old");
    };
    const backend = createBackend(driver);
    const lost: BackendError[] = [];
    backend.onLost((error) => lost.push(error));
    backend.onError((error) => lost.push(error));
    await rejects("UNSUPPORTED", backend.init());
    const staleEvents = driver.events!;
    driver.opening = async () => {};
    await backend.init();
    staleEvents.lost("late");
    staleEvents.error(new BackendError("DEVICE_ERROR", "late"));
    await backend.synchronize();
    assert.lengthOf(lost, 0);
    await backend.dispose();
  });

  it("fails to initialise where the device is lost while it is being opened", async () => {
    const driver = new FakeDriver();
    driver.opening = async () => driver.events!.lost("unplugged");
    const backend = createBackend(driver);
    const lost: BackendError[] = [];
    backend.onLost((error) => lost.push(error));
    assert.match((await rejects("DEVICE_LOST", backend.init())).message, /unplugged/);
    assert.lengthOf(lost, 1);
    await refusesEverything(backend, "DEVICE_LOST");
    await backend.dispose();
    assert.equal(driver.closed, 1);
  });

  it("refuses everything after dispose, which can be repeated", async () => {
    const { driver, backend } = await openFake();
    backend.alloc(64);
    const first = backend.dispose();
    await refusesEverything(backend, "DISPOSED");
    assert.equal(backend.dispose(), first);
    await first;
    await backend.dispose();
    await backend[Symbol.asyncDispose]();
    assert.equal(driver.closed, 1);
    await refusesEverything(backend, "DISPOSED");
    await rejects("DISPOSED", backend.init());
    assert.deepEqual(backend.memory(), {
      liveAllocations: 0,
      liveBytes: 0,
      peakBytes: 64,
      reservedBytes: 0,
      ...noPool,
    });
  });

  it("never opens a device after dispose", async () => {
    const driver = new FakeDriver();
    const backend = createBackend(driver);
    await backend.dispose();
    await rejects("DISPOSED", backend.init());
    throws("DISPOSED", () => backend.capabilities);
    await refusesEverything(backend, "DISPOSED");
    assert.equal(driver.opened, 0);
    assert.equal(driver.closed, 0);
  });

  it("closes what an init under way opens when dispose is called meanwhile", async () => {
    const driver = new FakeDriver();
    const opening = gate();
    driver.opening = () => opening.promise;
    const backend = createBackend(driver);
    const initialised = backend.init();
    const disposed = backend.dispose();
    await settle();
    assert.equal(driver.closed, 0);
    opening.open();
    await rejects("DISPOSED", initialised);
    await disposed;
    assert.equal(driver.closed, 1);
    await refusesEverything(backend, "DISPOSED");
  });

  it("disposes of a backend whose init fails meanwhile", async () => {
    const driver = new FakeDriver();
    const opening = gate();
    driver.opening = () => opening.promise;
    const backend = createBackend(driver);
    const initialised = backend.init();
    const disposed = backend.dispose();
    opening.fail(new Error("no"));
    await rejects("UNSUPPORTED", initialised);
    await disposed;
    assert.equal(driver.closed, 0);
  });

  it("rejects what is pending when dispose is called, though the driver never answers", async () => {
    const { driver, backend } = await openFake();
    const memory = backend.alloc(4);
    driver.reading = () => new Promise(() => {});
    driver.synchronizing = () => new Promise(() => {});
    const pending = [backend.copyDtoH(new Uint8Array(4), memory), backend.synchronize()];
    const disposed = backend.dispose();
    for (const promise of pending) await rejects("DISPOSED", promise);
    await disposed;
  });

  it("says what went wrong where closing fails", async () => {
    const { driver, backend } = await openFake();
    driver.closing = async () => {
      throw new Error("stuck");
    };
    assert.match((await rejects("DEVICE_ERROR", backend.dispose())).message, /dispose: stuck/);
    await rejects("DEVICE_ERROR", backend.dispose());
    assert.equal(driver.closed, 1);
  });

  it("works with await using", async () => {
    const driver = new FakeDriver();
    {
      await using backend = createBackend(driver);
      await backend.init();
      backend.alloc(4);
      assert.equal(driver.closed, 0);
    }
    assert.equal(driver.closed, 1);
  });

  it("keeps two backends apart", async () => {
    const one = await openFake();
    const two = await openFake();
    const foreign = one.backend.alloc(8);
    const own = two.backend.alloc(8);
    throws("INVALID_HANDLE", () => two.backend.free(foreign), "handle");
    throws("INVALID_HANDLE", () => two.backend.copyDtoD(own, foreign, 4), "source");
    await one.backend.dispose();
    two.backend.copyHtoD(own, Uint8Array.of(1));
    await two.backend.dispose();
  });
});
