import {
  BackendError,
  type DeviceHandle,
  type OperationName,
  operationNames,
  type SwapReport,
} from "@backplane/core";
import { assert } from "chai";
import { gate, rejects, settle, throws } from "./support/fake-driver.js";
import { smallCall } from "./support/small-calls.js";
import { type Bench, openBench, pattern } from "./support/swapping.js";

/** A swap from a to b that has come to where calls are kept back. */
interface Window extends Bench {
  /** Lets the swap go on, to its end. */
  finish(): Promise<SwapReport>;
  /** Makes the swap fail, to its end. */
  fail(): Promise<void>;
}

/** `at`: whether the swap is held while the old backend finishes, or while the new one is filled. */
async function openWindow(bench: Bench, at: "old" | "new"): Promise<Window> {
  const held = gate();
  if (at === "old") bench.driver("a").synchronizing = () => held.promise;
  const swapped = bench.backend.use("b");
  await settle();
  const release = async () => {
    bench.driver("a").synchronizing = async () => {};
    bench.driver("b").synchronizing = async () => {};
    await swapped.catch(() => {});
  };
  return {
    ...bench,
    finish: async () => {
      held.open();
      await release();
      return swapped;
    },
    fail: async () => {
      held.fail(new Error("the swap was made to fail"));
      await release();
      await rejects("DEVICE_ERROR", swapped);
    },
  };
}

/** Benches whose second backend can be held while it is filled. */
async function benchFor(at: "old" | "new"): Promise<{ bench: Bench; open: () => Promise<Window> }> {
  if (at === "old") {
    const bench = await openBench();
    return { bench, open: () => openWindow(bench, "old") };
  }
  const held = gate();
  const bench = await openBench({
    b: (driver) => {
      driver.synchronizing = () => held.promise;
    },
  });
  const open = async (): Promise<Window> => {
    const window = await openWindow(bench, "new");
    return {
      ...window,
      finish: () => {
        held.open();
        return window.finish();
      },
      fail: () => {
        held.fail(new Error("the swap was made to fail"));
        return window.fail();
      },
    };
  };
  return { bench, open };
}

async function bytesOf({ backend }: Bench, handle: DeviceHandle, length: number): Promise<number[]> {
  const bytes = new Uint8Array(length);
  await backend.copyDtoH(bytes, handle);
  return [...bytes];
}

const places = ["a", "b", "bias", "c", "d", "e", "f", "g", "h", "i"] as const;

/** Small valid calls of every operation on operands of 64 bytes. */
function operationArguments(
  at: Record<(typeof places)[number], DeviceHandle>,
): Record<OperationName, object> {
  const { bias, ...others } = at;
  const operands = Object.values(others);
  const { a, b, c } = others;
  /** With slices, scalars, outputs over inputs and operands that may be left out. */
  const changed: Partial<Record<OperationName, object>> = {
    gemm: { b: { handle: b, byteOffset: 16 } },
    batchedGemm: { c: { handle: c, byteOffset: 32 } },
    conv2d: { bias },
    reduce: { axes: [1] },
    unary: { output: a },
    binary: { b: { scalar: 2 }, output: c },
  };
  return Object.fromEntries(
    operationNames.map((name) => [name, { ...smallCall(name, (i) => operands[i]!), ...changed[name] }]),
  ) as Record<OperationName, object>;
}

for (const at of ["old", "new"] as const)
  for (const ends of ["finish", "fail"] as const)
    describe(`calls made while a swap moves data (held at the ${at} backend) that will ${ends}`, () => {
      const target = ends === "finish" ? "b" : "a";

      async function start(prepare: (bench: Bench) => void = () => {}) {
        const { bench, open } = await benchFor(at);
        prepare(bench);
        const window = await open();
        const end = async () => {
          await window[ends]();
          assert.equal(window.backend.current, target);
        };
        return { ...window, end };
      }

      it("are carried out in order afterwards", async () => {
        let handle!: DeviceHandle;
        let other!: DeviceHandle;
        const window = await start(({ backend }) => {
          handle = backend.alloc(12);
          other = backend.alloc(12);
          backend.copyHtoD(handle, pattern(12, 1));
        });
        const { backend, end } = window;
        const source = Uint8Array.of(1, 2, 3, 4);
        const early = new Uint8Array(12);
        const late = new Uint8Array(4);
        const reads = [backend.copyDtoH(early, handle)];
        backend.copyHtoD(handle, source);
        source.fill(99);
        backend.fill({ handle, byteOffset: 4 }, 7, 2, "u8");
        backend.copyDtoD({ handle: other, byteOffset: 2 }, { handle, byteOffset: 0 }, 6);
        reads.push(backend.copyDtoH(new DataView(late.buffer), { handle: other, byteOffset: 3 }));
        backend.fill(other, 0, 12, "u8");
        const idle = backend.synchronize();
        await settle();
        assert.deepEqual([...early, ...late], new Array(16).fill(0), "nothing has happened yet");
        await end();
        await Promise.all([...reads, idle]);
        assert.deepEqual(early, pattern(12, 1));
        assert.deepEqual([...late], [2, 3, 4, 7]);
        assert.deepEqual(await bytesOf(window, handle, 12), [
          1,
          2,
          3,
          4,
          7,
          7,
          ...pattern(12, 1).subarray(6),
        ]);
        assert.deepEqual(await bytesOf(window, other, 12), new Array(12).fill(0));
        await backend.dispose();
        window.onlyOpen();
      });

      it("of every operation are carried out with the arguments of that time", async () => {
        for (const name of operationNames) {
          let at64!: Record<(typeof places)[number], DeviceHandle>;
          const window = await start(({ backend }) => {
            const allocated = places.map((key) => [key, backend.alloc(64)]);
            at64 = Object.fromEntries(allocated) as typeof at64;
          });
          const { backend, driver, end } = window;
          const args = operationArguments(at64)[name] as Record<string, unknown>;
          (backend[name] as (args: unknown) => void)(args);
          for (const handle of Object.values(at64)) backend.free(handle);
          // The caller may use its objects again for something else.
          for (const value of Object.values(args)) {
            if (Array.isArray(value)) value.fill(5);
            else if (typeof value === "object") Object.assign(value as object, { byteOffset: 3, scalar: 5 });
          }
          for (const key of Object.keys(args)) args[key] = undefined;
          assert.lengthOf(driver("a").runs, 0);
          const heard: unknown[] = [];
          backend.onError((error) => heard.push(error));
          await end();
          assert.deepEqual(heard, [], name);
          assert.deepEqual(
            driver(target).runs.map((run) => run.operation),
            [name],
          );
          assert.equal(driver(target).live.size, 0);
          await backend.synchronize();
          await backend.dispose();
        }
      });

      it("refuse to fill an array that was shortened before their turn", async () => {
        let live!: DeviceHandle;
        const window = await start(({ backend }) => {
          live = backend.alloc(16);
        });
        const resizable = { maxByteLength: 16 };
        const buffer = new (
          ArrayBuffer as unknown as new (
            length: number,
            options: object,
          ) => ArrayBuffer & { resize(length: number): void }
        )(16, resizable);
        const views = [buffer, new Uint8Array(buffer), new Uint8Array(buffer, 0, 16)];
        const reads = views.map((view) => window.backend.copyDtoH(view, live));
        const expected = reads.map((read) => rejects("INVALID_ARGUMENT", read, "destination"));
        buffer.resize(8);
        await window.end();
        await Promise.all(expected);
        await window.backend.dispose();
      });

      it("are checked at once", async () => {
        let live!: DeviceHandle;
        let stale!: DeviceHandle;
        const window = await start(({ backend }) => {
          live = backend.alloc(16);
          stale = backend.alloc(16);
          backend.free(stale);
        });
        const { backend, end, driver } = window;
        const before = backend.memory();
        const heard: unknown[] = [];
        backend.onError((error) => heard.push(error));
        throws("INVALID_ARGUMENT", () => backend.alloc(-1), "bytes");
        throws("INVALID_ARGUMENT", () => backend.alloc(1, { zero: 1 as unknown as boolean }), "zero");
        throws("OUT_OF_MEMORY", () => backend.alloc(2 ** 40));
        throws("INVALID_HANDLE", () => backend.free(stale));
        throws("INVALID_HANDLE", () => backend.copyHtoD(stale, new Uint8Array(1)));
        throws("OUT_OF_BOUNDS", () => backend.copyHtoD(live, new Uint8Array(17)));
        throws("INVALID_ARGUMENT", () => backend.copyHtoD(live, "x" as unknown as ArrayBuffer), "source");
        throws("OUT_OF_BOUNDS", () => backend.fill(live, 0, 5));
        throws("INVALID_ARGUMENT", () => backend.fill(live, 256, 1, "u8"), "value");
        throws("INVALID_ARGUMENT", () => backend.copyDtoD(live, live, 8), "destination");
        throws("INVALID_HANDLE", () => backend.native(stale));
        assert.match(throws("BUSY", () => backend.native(live)).message, /^native: .*await use\(\) first$/);
        await rejects("OUT_OF_BOUNDS", backend.copyDtoH(new Uint8Array(17), live));
        await rejects("INVALID_ARGUMENT", backend.copyDtoH({} as unknown as ArrayBuffer, live));
        const negation = { kind: "neg", n: 4, input: live, output: live } as const;
        throws("INVALID_ARGUMENT", () => backend.unary({ ...negation, n: -1 }), "n");
        throws("OUT_OF_BOUNDS", () => backend.unary({ ...negation, n: 5 }), "input");
        throws("INVALID_HANDLE", () => backend.unary({ ...negation, output: stale }), "output");
        throws("INVALID_ARGUMENT", () => backend.unary(undefined as unknown as typeof negation));
        throws("INVALID_ARGUMENT", () =>
          backend.gemm({ m: 1, n: 1, k: 1, a: live, b: live, c: live, lda: 0 }),
        );
        assert.deepEqual(backend.memory(), before);
        await end();
        await backend.synchronize();
        assert.deepEqual(heard, []);
        assert.lengthOf(driver(target).runs, 0);
        await backend.dispose();
      });

      it("may allocate, use and free", async () => {
        let outlived!: DeviceHandle;
        let freed!: DeviceHandle;
        const window = await start(({ backend }) => {
          outlived = backend.alloc(8);
          freed = backend.alloc(24);
          backend.copyHtoD(freed, pattern(24, 3));
        });
        const { backend, driver, end } = window;
        const heard: unknown[] = [];
        backend.onError((error) => heard.push(error));
        const fresh = backend.alloc(4);
        const raw = backend.alloc(4, { zero: false });
        const empty = backend.alloc(0);
        const shortLived = backend.alloc(40);
        backend.copyHtoD({ handle: fresh, byteOffset: 1 }, Uint8Array.of(5));
        backend.fill(shortLived, 1, 10);
        backend.copyDtoD({ handle: outlived, byteOffset: 0 }, { handle: freed, byteOffset: 16 }, 8);
        const copied = new Uint8Array(24);
        const read = backend.copyDtoH(copied, freed);
        backend.free(freed);
        backend.free(shortLived);
        throws("INVALID_HANDLE", () => backend.free(freed));
        throws("INVALID_HANDLE", () => backend.fill(shortLived, 0, 1));
        assert.deepInclude(backend.memory(), { liveAllocations: 4, liveBytes: 16 });
        await end();
        await read;
        assert.deepEqual(copied, pattern(24, 3));
        assert.deepEqual(await bytesOf(window, fresh, 4), [0, 5, 0, 0]);
        assert.deepEqual(await bytesOf(window, outlived, 8), [...pattern(24, 3).subarray(16)]);
        assert.deepEqual(await bytesOf(window, raw, 4), [0xaa, 0xaa, 0xaa, 0xaa]);
        assert.equal(driver(target).reservedBytes(), 16);
        for (const handle of [fresh, raw, empty, outlived]) backend.free(handle);
        assert.deepEqual(heard, []);
        assert.deepInclude(backend.memory(), { liveAllocations: 0, liveBytes: 0, reservedBytes: 0 });
        await backend.dispose();
        window.onlyOpen();
      });

      it("report an allocation that then cannot be made, and nothing hangs on it", async () => {
        const window = await start();
        const { backend, driver, end } = window;
        const heard: string[] = [];
        backend.onError((error) => heard.push(error.code));
        const refuse = () => {
          throw new BackendError("OUT_OF_MEMORY", "full");
        };
        driver("a").allocating = refuse;
        driver("b").allocating = refuse;
        const missing = backend.alloc(4);
        backend.fill(missing, 0, 1);
        const read = backend.copyDtoH(new Uint8Array(4), missing);
        await end();
        await rejects("OUT_OF_MEMORY", read);
        await rejects("OUT_OF_MEMORY", backend.synchronize());
        await backend.synchronize();
        assert.deepEqual(heard, ["OUT_OF_MEMORY", "OUT_OF_MEMORY"]);
        throws("OUT_OF_MEMORY", () => backend.fill(missing, 0, 1));
        driver(target).allocating = () => {};
        const other = backend.alloc(4);
        await backend.use("c");
        assert.equal(backend.current, "c");
        assert.deepInclude(backend.memory(), { liveAllocations: 2, liveBytes: 8 });
        backend.free(missing);
        backend.free(other);
        assert.deepInclude(backend.memory(), { liveAllocations: 0, liveBytes: 0, reservedBytes: 0 });
        await backend.dispose();
        window.onlyOpen();
      });

      it("are refused or rejected when dispose ends it all", async () => {
        const window = await start(({ backend }) => backend.alloc(4));
        const { backend, onlyOpen } = window;
        const handle = backend.alloc(4);
        const pending = [backend.copyDtoH(new Uint8Array(4), handle), backend.synchronize()];
        const disposed = backend.dispose();
        throws("DISPOSED", () => backend.free(handle));
        const rejected = pending.map((promise) => rejects("DISPOSED", promise));
        await window[ends]().catch(() => {});
        await Promise.all(rejected);
        await disposed;
        onlyOpen();
      });
    });

describe("calls that only the new backend cannot carry out", () => {
  it("are reported as a fault; calls that the old one cannot are refused at once", async () => {
    const bench = await openBench({
      a: (driver) => Object.assign(driver, { kernels: { unary: driver.kernels.unary } }),
      b: (driver) => Object.assign(driver, { kernels: { reduce: driver.kernels.reduce } }),
    });
    const handle = bench.backend.alloc(16);
    const { backend, finish } = await openWindow(bench, "old");
    throws("UNSUPPORTED", () =>
      backend.reduce({ kind: "sum", shape: [1], input: handle, output: { handle, byteOffset: 8 } }),
    );
    const heard: string[] = [];
    backend.onError((error) => heard.push(error.code));
    backend.unary({ kind: "neg", n: 4, input: handle, output: handle });
    await finish();
    assert.deepEqual(heard, ["UNSUPPORTED"]);
    await rejects("UNSUPPORTED", backend.synchronize());
    await backend.synchronize();
    await backend.dispose();
  });

  it("reach listeners after all kept-back calls were carried out", async () => {
    const bench = await openBench();
    const handle = bench.backend.alloc(4);
    const { backend, driver, finish } = await openWindow(bench, "old");
    driver("b").allocating = (bytes) => {
      if (bytes === 8) throw new BackendError("OUT_OF_MEMORY", "full");
    };
    backend.alloc(8);
    backend.fill(handle, 3, 4, "u8");
    // What a listener asks for comes after what was asked for before.
    backend.onError(() => backend.free(handle));
    await finish();
    assert.deepEqual(driver("b").calls.slice(-2), ["fill 0 4 3030303", "free 4"]);
    await rejects("OUT_OF_MEMORY", backend.synchronize());
    await backend.synchronize();
    await backend.dispose();
  });
});
