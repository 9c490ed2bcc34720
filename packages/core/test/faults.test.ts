import { BackendError } from "@backplane/core";
import { assert } from "chai";
import { gate, noPool, openFake, rejects, settle, throws } from "./support/fake-driver.js";

const fault = (message: string): BackendError => new BackendError("DEVICE_ERROR", message);

describe("faults of a driver", () => {
  it("reject the next promise once, and reach every listener", async () => {
    const { driver, backend } = await openFake();
    const heard: string[] = [];
    backend.onError((error) => heard.push(`a ${error.message}`));
    const stop = backend.onError((error) => heard.push(`b ${error.message}`));
    const first = fault("first");
    driver.events!.error(first);
    driver.events!.error(fault("second"));
    stop();
    driver.events!.error(fault("third"));
    assert.deepEqual(heard, ["a first", "b first", "a second", "b second", "a third"]);
    assert.equal(await rejects("DEVICE_ERROR", backend.synchronize()), first);
    await backend.synchronize();
    backend.alloc(4);
    await backend.dispose();
  });

  it("reject a read instead of letting it answer", async () => {
    const { driver, backend } = await openFake();
    const memory = backend.alloc(4);
    const reading = gate();
    driver.reading = () => reading.promise;
    const read = backend.copyDtoH(new Uint8Array(4), memory);
    driver.events!.error(fault("out of range"));
    reading.open();
    await rejects("DEVICE_ERROR", read);
    await backend.copyDtoH(new Uint8Array(4), memory);
    await backend.dispose();
  });

  it("reject a read of no bytes too", async () => {
    const { driver, backend } = await openFake();
    const memory = backend.alloc(0);
    driver.events!.error(fault("earlier"));
    await rejects("DEVICE_ERROR", backend.copyDtoH(new Uint8Array(0), memory));
    await backend.synchronize();
    await backend.dispose();
  });

  it("are reported once where the promise of the driver fails with them as well", async () => {
    const { driver, backend } = await openFake();
    driver.synchronizing = async () => {
      driver.events!.error(fault("kernel failed"));
      throw new Error("kernel failed");
    };
    await rejects("DEVICE_ERROR", backend.synchronize());
    driver.synchronizing = async () => {};
    await backend.synchronize();
    await backend.dispose();
  });

  it("become typed errors where a driver throws something else", async () => {
    const { driver, backend } = await openFake();
    const cause = new RangeError("array too long");
    driver.allocating = () => {
      throw cause;
    };
    const error = throws("DEVICE_ERROR", () => backend.alloc(16));
    assert.equal(error.cause, cause);
    assert.equal(error.message, "alloc: array too long");
    assert.deepInclude(backend.memory(), { liveAllocations: 0, liveBytes: 0, peakBytes: 0 });
    driver.allocating = () => {
      throw new BackendError("OUT_OF_MEMORY", "full");
    };
    const full = throws("OUT_OF_MEMORY", () => backend.alloc(16));
    assert.deepEqual([full.operation, full.message], ["alloc", "alloc: full"]);
    driver.allocating = () => {
      throw new BackendError("OUT_OF_MEMORY", "alloc: full again");
    };
    assert.equal(throws("OUT_OF_MEMORY", () => backend.alloc(16)).message, "alloc: full again");
    driver.allocating = () => {};
    const memory = backend.alloc(16);

    driver.reading = async () => {
      throw "a string";
    };
    assert.match(
      (await rejects("DEVICE_ERROR", backend.copyDtoH(new Uint8Array(1), memory))).message,
      /a string/,
    );
    driver.synchronizing = async () => {
      throw new Error("timeout");
    };
    await rejects("DEVICE_ERROR", backend.synchronize());
    await backend.dispose();
  });

  it("become typed errors where a driver throws instead of rejecting", async () => {
    const { driver, backend } = await openFake();
    const memory = backend.alloc(4);
    driver.read = () => {
      throw new Error("at once");
    };
    driver.synchronize = () => {
      throw new Error("at once");
    };
    await rejects("DEVICE_ERROR", backend.copyDtoH(new Uint8Array(4), memory));
    await rejects("DEVICE_ERROR", backend.synchronize());
    await backend.dispose();
  });

  it("in one kernel leave the backend usable", async () => {
    const { backend } = await openFake({
      kernels: {
        unary: {
          supports: [{ dtype: ["f32"] }],
          run: () => {
            throw new Error("no scratch");
          },
        },
      },
    });
    const memory = backend.alloc(4);
    const args = { kind: "neg", n: 1, input: memory, output: memory } as const;
    assert.match(throws("DEVICE_ERROR", () => backend.unary(args)).message, /^unary: no scratch/);
    backend.copyHtoD(memory, new Uint8Array(4));
    await backend.synchronize();
    await backend.dispose();
  });
});

describe("loss of the device", () => {
  it("rejects what is pending and refuses what comes later", async () => {
    const { driver, backend } = await openFake();
    const memory = backend.alloc(8);
    driver.reading = () => new Promise(() => {});
    driver.synchronizing = () => new Promise(() => {});
    const heard: BackendError[] = [];
    backend.onLost((error) => heard.push(error));
    const target = new Uint8Array(4);
    const pending = [backend.copyDtoH(target, memory), backend.synchronize()];
    driver.events!.lost("power");
    driver.events!.lost("again");
    for (const promise of pending) assert.match((await rejects("DEVICE_LOST", promise)).message, /power/);
    assert.lengthOf(heard, 1);
    assert.deepEqual([...target], [0, 0, 0, 0]);
    assert.equal(throws("DEVICE_LOST", () => backend.alloc(4)).operation, "alloc");
    throws("DEVICE_LOST", () => backend.free(memory));
    throws("DEVICE_LOST", () => backend.fill(memory, 0, 1));
    throws("DEVICE_LOST", () => backend.native());
    await rejects("DEVICE_LOST", backend.copyDtoH(target, memory));
    await rejects("DEVICE_LOST", backend.synchronize());
    assert.equal(backend.capabilities.device.name, "fake");
    assert.deepEqual(backend.memory(), {
      liveAllocations: 0,
      liveBytes: 0,
      peakBytes: 8,
      reservedBytes: 0,
      ...noPool,
    });
    await backend.dispose();
    assert.equal(driver.closed, 1);
    throws("DISPOSED", () => backend.alloc(4));
  });

  it("reaches listeners that come late, and none that have left", async () => {
    const { driver, backend } = await openFake();
    const heard: string[] = [];
    const stop = backend.onLost(() => heard.push("left"));
    stop();
    driver.events!.lost("power");
    backend.onLost((error) => heard.push(error.code));
    assert.deepEqual(heard, ["DEVICE_LOST"]);
    await backend.dispose();
  });

  it("reaches the other listeners where one throws", async () => {
    const { driver, backend } = await openFake();
    const unhandled: unknown[] = [];
    const listeners = process.rawListeners("unhandledRejection");
    process.removeAllListeners("unhandledRejection");
    process.on("unhandledRejection", (error) => unhandled.push(error));
    try {
      const heard: string[] = [];
      backend.onLost(() => {
        throw new Error("bug of the listener");
      });
      backend.onLost(() => heard.push("second"));
      driver.events!.lost("power");
      assert.deepEqual(heard, ["second"]);
      const stop = backend.onLost(() => {
        throw new Error("bug of a late one");
      });
      assert.isFunction(stop);
      await settle();
      assert.deepEqual(
        unhandled.map((error) => (error as Error).message),
        ["bug of the listener", "bug of a late one"],
      );
    } finally {
      process.removeAllListeners("unhandledRejection");
      for (const listener of listeners) process.on("unhandledRejection", listener as () => void);
    }
    await backend.dispose();
  });

  it("is nobody's business after dispose", async () => {
    const { driver, backend } = await openFake();
    const heard: unknown[] = [];
    backend.onLost((error) => heard.push(error));
    backend.onError((error) => heard.push(error));
    await backend.dispose();
    driver.events!.lost("destroyed");
    driver.events!.error(fault("late"));
    backend.onLost((error) => heard.push(error));
    assert.lengthOf(heard, 0);
  });
});
