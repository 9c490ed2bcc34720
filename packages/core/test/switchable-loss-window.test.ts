import type { BackendError } from "@backplane/core";
import { assert } from "chai";
import { gate, noPool, rejects, settle, throws } from "./support/fake-driver.js";
import { bytesOf, lostBench } from "./support/losing.js";
import { openBench, pattern } from "./support/swapping.js";

describe("a loss during a swap", () => {
  it("of the old backend rejects the swap and what was kept back, and changes nothing", async () => {
    for (const at of ["open", "synchronize", "read", "fill"] as const) {
      const barrier = gate();
      const bench = await openBench({
        b: (driver) => {
          if (at === "open") driver.opening = () => barrier.promise;
          if (at === "fill") driver.synchronizing = () => barrier.promise;
        },
      });
      const { backend, driver } = bench;
      const handle = backend.alloc(8);
      const doomed = backend.alloc(4);
      if (at === "synchronize") driver("a").synchronizing = () => barrier.promise;
      if (at === "read") driver("a").reading = () => barrier.promise;
      const faults: unknown[] = [];
      const losses: unknown[] = [];
      backend.onError((error) => faults.push(error));
      backend.onLost((error) => losses.push(error));
      const swapped = rejects("DEVICE_LOST", backend.use("b"));
      await settle();
      backend.fill(handle, 1, 8, "u8");
      const fresh = backend.alloc(32);
      backend.free(doomed);
      const pending = [backend.copyDtoH(new Uint8Array(8), handle), backend.synchronize()];
      driver("a").events!.lost("power");
      throws("DEVICE_LOST", () => backend.fill(handle, 1, 8, "u8"));
      for (const promise of pending) await rejects("DEVICE_LOST", promise);
      barrier.open();
      assert.match((await swapped).message, /use: a: the device was lost: power/);
      assert.equal(backend.current, "a", at);
      bench.onlyOpen(driver("a"));
      assert.deepEqual(faults, []);
      assert.lengthOf(losses, 1);
      const { lost } = await backend.use("b");
      assert.deepEqual(lost, [
        { handle, bytes: 8 },
        { handle: fresh, bytes: 32 },
      ]);
      bench.onlyOpen(driver("b"));
      await backend.synchronize();
      await rejects("DEVICE_LOST", backend.copyDtoH(new Uint8Array(1), fresh));
      backend.fill(fresh, 0, 8);
      assert.deepEqual(await bytesOf(bench, fresh, 32), new Uint8Array(32));
      assert.deepEqual(backend.memory(), {
        ...{ liveAllocations: 2, liveBytes: 40, peakBytes: 44, reservedBytes: 40, ...noPool },
      });
      await backend.dispose();
      bench.onlyOpen();
    }
  });

  it("of the new backend leaves the old one in use, with what was kept back", async () => {
    for (const at of ["open", "fill", "end"] as const) {
      const barrier = gate();
      const bench = await openBench({
        b: (driver) => {
          if (at === "open") driver.opening = () => barrier.promise;
          if (at === "fill") driver.synchronizing = () => barrier.promise;
          if (at === "end")
            driver.synchronizing = async () => queueMicrotask(() => driver.events!.lost("end"));
        },
      });
      const { backend, driver } = bench;
      const handle = backend.alloc(8);
      backend.copyHtoD(handle, pattern(8, 1));
      const losses: unknown[] = [];
      backend.onLost((error) => losses.push(error));
      const swapped = rejects("DEVICE_LOST", backend.use("b"));
      if (at !== "end") {
        await settle();
        driver("b").events!.lost("unplugged");
      }
      const kept = bytesOf(bench, handle, 8);
      barrier.open();
      assert.match((await swapped).message, /use: b was lost while it took over; a stays in use/);
      assert.deepEqual(await kept, pattern(8, 1));
      assert.equal(backend.current, "a");
      bench.onlyOpen(driver("a"));
      assert.deepEqual(backend.lost, []);
      assert.lengthOf(losses, 0, "what is in use was not lost");
      assert.deepEqual(await bytesOf(bench, handle, 8), pattern(8, 1));
      await backend.dispose();
      bench.onlyOpen();
    }
  });

  it("of the new backend in the last moment of a swap leaves the old one in use", async () => {
    for (const isOldLost of [false, true])
      for (let moment = 0; moment < 12; moment++) {
        let current = "";
        const bench = await openBench({
          b: (driver) => {
            driver.synchronizing = async () => {
              const lose = async (): Promise<void> => {
                for (let i = 0; i < moment; i++) await undefined;
                current = bench.backend.current;
                driver.events!.lost("the last moment");
              };
              void lose();
            };
          },
        });
        const { backend, driver } = bench;
        const handle = backend.alloc(8);
        if (isOldLost) driver("a").events!.lost("power");
        else backend.copyHtoD(handle, pattern(8, 1));
        const swapped = backend.use("b").then(
          () => "moved",
          (error: BackendError) => error.code,
        );
        const outcome = await swapped;
        await settle();
        assert.equal(outcome, current === "b" ? "moved" : "DEVICE_LOST", `moment ${moment}`);
        if (current === "a" && !isOldLost) assert.deepEqual(await bytesOf(bench, handle, 8), pattern(8, 1));
        else throws("DEVICE_LOST", () => backend.free(handle));
        await backend.dispose();
        bench.onlyOpen();
      }
  });

  it("of the new backend right after it took over is a loss like any other", async () => {
    const bench = await openBench();
    const { backend, driver } = bench;
    const handle = backend.alloc(8);
    const barrier = gate();
    driver("a").synchronizing = () => barrier.promise;
    const swapped = backend.use("b");
    await settle();
    backend.fill(handle, 1, 1);
    const fresh = backend.alloc(4);
    const b = driver("b");
    const fill = b.fill.bind(b);
    b.fill = (destination, bits) => {
      b.events!.lost("power");
      fill(destination, bits);
    };
    const faults: unknown[] = [];
    backend.onError((error) => faults.push(error));
    const read = rejects("DEVICE_LOST", backend.copyDtoH(new Uint8Array(8), handle));
    barrier.open();
    assert.equal((await swapped).to, "b");
    await read;
    throws("DEVICE_LOST", () => backend.alloc(4));
    assert.deepEqual(faults, []);
    assert.deepEqual((await backend.use("c")).lost, [
      { handle, bytes: 8 },
      { handle: fresh, bytes: 4 },
    ]);
    await backend.synchronize();
    await backend.dispose();
    bench.onlyOpen();
  });
});

describe("lost contents that are written while a swap moves data", () => {
  async function lostWindow() {
    const { bench, one, two } = await lostBench();
    const { backend, driver } = bench;
    await backend.use("b");
    const barrier = gate();
    driver("b").synchronizing = () => barrier.promise;
    const swapped = backend.use("c");
    await settle();
    return { ...bench, bench, one, two, swapped, barrier };
  }

  it("are there again for the calls that follow, also for those kept back", async () => {
    const { bench, backend, one, two, swapped, barrier } = await lostWindow();
    throws("DEVICE_LOST", () => backend.fill(one, 1, 1), "destination");
    const double = { kind: "neg", n: 2, input: one, output: two } as const;
    throws("DEVICE_LOST", () => backend.unary(double), "input");
    const early = rejects("DEVICE_LOST", backend.copyDtoH(new Uint8Array(8), one), "source");
    backend.copyHtoD(one, pattern(8, 4));
    const read = bytesOf(bench, one, 8);
    backend.fill({ handle: one, byteOffset: 4 }, 0, 1);
    throws("DEVICE_LOST", () => backend.unary(double), "output");
    await early;
    barrier.open();
    assert.deepInclude(await swapped, { allocations: 1, bytes: 0, lost: [{ handle: two, bytes: 16 }] });
    assert.deepEqual(await read, pattern(8, 4));
    assert.deepEqual(
      await bytesOf(bench, one, 8),
      Uint8Array.of(...pattern(8, 4).subarray(0, 4), 0, 0, 0, 0),
    );
    await backend.synchronize();
    await backend.dispose();
  });

  it("stay lost where the write cannot be carried out", async () => {
    const { bench, backend, driver, one, two, swapped, barrier } = await lostWindow();
    const c = driver("c");
    const write = c.write.bind(c);
    c.write = (destination, byteOffset, source) => {
      if (source[0] === 1) throw new Error("cannot write");
      write(destination, byteOffset, source);
    };
    backend.copyHtoD(one, new Uint8Array(8).fill(1));
    const first = backend.copyDtoH(new Uint8Array(8), one);
    const second = backend.copyDtoH(new Uint8Array(8), one);
    backend.copyHtoD(two, new Uint8Array(16).fill(1));
    backend.copyHtoD(two, new Uint8Array(16).fill(2));
    backend.copyHtoD(two, new Uint8Array(16).fill(1));
    const third = bytesOf(bench, two, 16);
    const outcomes = Promise.allSettled([first, second]);
    barrier.open();
    assert.deepEqual((await swapped).lost, [{ handle: one, bytes: 8 }]);
    for (const outcome of await outcomes) assert.equal(outcome.status, "rejected", "no made-up data");
    await rejects("DEVICE_LOST", backend.copyDtoH(new Uint8Array(8), one), "source");
    assert.deepEqual([...(await third.catch(() => bytesOf(bench, two, 16)))], new Array(16).fill(2));
    backend.fill(one, 3, 8, "u8");
    assert.deepEqual([...(await bytesOf(bench, one, 8))], new Array(8).fill(3));
    await backend.dispose();
  });
});
