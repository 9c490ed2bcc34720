import { BackendError, BackendRegistry, type BinaryProblem, SwitchableBackend } from "@backplane/core";
import { assert } from "chai";
import { fakeProvider, gate, noPool, rejects, settle, throws } from "./support/fake-driver.js";
import { openBench, pattern } from "./support/swapping.js";

describe("SwitchableBackend", () => {
  it("opens the first of its chain that can be opened", async () => {
    const registry = new BackendRegistry([
      fakeProvider("a", (driver) => {
        driver.opening = async () => {
          throw new Error("no");
        };
      }),
      fakeProvider("b"),
    ]);
    const backend = new SwitchableBackend(registry);
    assert.equal(backend.current, "");
    assert.isFalse(backend.supports("gemm"));
    throws("NOT_INITIALIZED", () => backend.capabilities);
    throws("NOT_INITIALIZED", () => backend.alloc(4));
    await rejects("NOT_INITIALIZED", backend.use("b"));
    await rejects("NOT_INITIALIZED", backend.synchronize());
    const first = backend.init();
    assert.equal(backend.init(), first);
    await first;
    assert.equal(backend.current, "b");
    assert.equal(backend.capabilities.device.name, "b");
    assert.isTrue(backend.supports("gemm"));
    await backend.dispose();
    throws("DISPOSED", () => backend.alloc(4));
    await rejects("DISPOSED", backend.init());
    await rejects("DISPOSED", backend.use("b"));
  });

  it("can be initialised after a failure", async () => {
    let fail = true;
    const provider = fakeProvider("a", (driver) => {
      driver.opening = async () => {
        if (fail) throw new Error("no");
      };
    });
    const backend = new SwitchableBackend(new BackendRegistry([provider]));
    await rejects("UNSUPPORTED", backend.init());
    fail = false;
    await backend.init();
    await backend.dispose();
    assert.deepEqual(
      provider.drivers.map((driver) => [driver.opened, driver.closed]),
      [
        [1, 0],
        [1, 1],
      ],
    );
  });

  it("closes what an init under way opens when dispose is called meanwhile", async () => {
    const opening = gate();
    const provider = fakeProvider("a", (driver) => {
      driver.opening = () => opening.promise;
    });
    const backend = new SwitchableBackend(new BackendRegistry([provider]));
    const initialised = backend.init();
    const disposed = backend.dispose();
    opening.open();
    await rejects("DISPOSED", initialised);
    await disposed;
    assert.equal(provider.drivers[0]!.closed, 1);
  });

  it("moves every live allocation bit by bit and keeps the handles", async () => {
    const { backend, driver, onlyOpen } = await openBench();
    // The middle one is moved in two pieces.
    const sizes = [1, 3, 16 * 2 ** 20 + 5, 0, 16 * 2 ** 20, 7];
    const contents = sizes.map((size, i) => pattern(size, i + 1));
    const handles = sizes.map((size) => backend.alloc(size));
    const freed = backend.alloc(100);
    for (const [i, handle] of handles.entries()) backend.copyHtoD(handle, contents[i]!);
    backend.free(freed);
    const before = backend.memory();
    const [a] = [driver("a")];

    const report = await backend.use("b");
    assert.deepInclude(report, { from: "a", to: "b", allocations: 6, bytes: sizes.reduce((x, y) => x + y) });
    assert.isAtLeast(report.milliseconds, 0);
    assert.equal(backend.current, "b");
    assert.equal(backend.capabilities.device.name, "b");
    assert.equal(a.closed, 1);
    onlyOpen(driver("b"));
    assert.deepEqual(backend.memory(), { ...before, reservedBytes: before.liveBytes });
    for (const [i, handle] of handles.entries()) {
      const bytes = new Uint8Array(sizes[i]!);
      await backend.copyDtoH(bytes, handle);
      assert.isTrue(Buffer.from(bytes).equals(Buffer.from(contents[i]!)), `allocation ${i}`);
    }
    throws("INVALID_HANDLE", () => backend.free(freed));

    await backend.use("a");
    assert.notEqual(driver("a"), a, "a closed backend is not used again");
    onlyOpen(driver("a"));
    for (const handle of handles) backend.free(handle);
    assert.deepInclude(backend.memory(), { liveAllocations: 0, liveBytes: 0, reservedBytes: 0 });
    await backend.dispose();
    onlyOpen();
  });

  it("does nothing where the backend is already in use", async () => {
    const { backend, driver, providers } = await openBench();
    backend.alloc(4);
    assert.deepEqual(await backend.use("a"), {
      from: "a",
      to: "a",
      allocations: 0,
      bytes: 0,
      milliseconds: 0,
      lost: [],
    });
    assert.lengthOf(providers.a.drivers, 1);
    assert.equal(driver("a").closed, 0);
    await backend.dispose();
  });

  it("refuses a name that is not registered", async () => {
    const { backend, onlyOpen, driver } = await openBench();
    await rejects("INVALID_ARGUMENT", backend.use("z"));
    assert.equal(backend.current, "a");
    backend.alloc(4);
    onlyOpen(driver("a"));
    await backend.dispose();
  });

  it("runs swaps asked for at the same time one after another", async () => {
    const { backend, driver, onlyOpen } = await openBench();
    const handle = backend.alloc(8);
    backend.copyHtoD(handle, pattern(8, 1));
    const reports = await Promise.all(["b", "c", "c", "a", "b"].map((name) => backend.use(name)));
    assert.deepEqual(
      reports.map(({ from, to }) => from + to),
      ["ab", "bc", "cc", "ca", "ab"],
    );
    onlyOpen(driver("b"));
    const bytes = new Uint8Array(8);
    await backend.copyDtoH(bytes, handle);
    assert.deepEqual(bytes, pattern(8, 1));
    await backend.dispose();
    onlyOpen();
  });

  for (const [what, prepare] of Object.entries({
    "cannot be opened": { opening: new Error("no adapter") },
    "has no room": { allocating: new BackendError("OUT_OF_MEMORY", "full") },
    "fails while it is filled": { synchronizing: new Error("broken") },
    "cannot be closed after it failed": { opening: new Error("no adapter"), closing: new Error("stuck") },
  } as Record<string, Partial<Record<"opening" | "allocating" | "synchronizing" | "closing", Error>>>))
    it(`stays as it was where the other backend ${what}`, async () => {
      const { backend, driver, onlyOpen } = await openBench({
        b: (other) => {
          for (const [step, error] of Object.entries(prepare))
            other[step as "opening"] = () => {
              throw error;
            };
        },
      });
      const handles = [backend.alloc(4), backend.alloc(12)];
      backend.copyHtoD(handles[0]!, pattern(4, 1));
      backend.copyHtoD(handles[1]!, pattern(12, 2));
      const before = backend.memory();
      const error = await rejects(
        "opening" in prepare ? "UNSUPPORTED" : "allocating" in prepare ? "OUT_OF_MEMORY" : "DEVICE_ERROR",
        backend.use("b"),
      );
      assert.match(error.message, /no adapter|full|broken/);
      assert.equal(backend.current, "a");
      assert.deepEqual(backend.memory(), before);
      onlyOpen(driver("a"));
      const bytes = new Uint8Array(12);
      await backend.copyDtoH(bytes, handles[1]!);
      assert.deepEqual(bytes, pattern(12, 2));
      await backend.use("c");
      await backend.copyDtoH(bytes, handles[1]!);
      assert.deepEqual(bytes, pattern(12, 2));
      await backend.dispose();
    });

  it("stays as it was where the old backend reports a fault, which it reports once", async () => {
    const { backend, driver, onlyOpen } = await openBench();
    const handle = backend.alloc(4);
    const a = driver("a");
    a.events!.error(new BackendError("DEVICE_ERROR", "kernel failed"));
    assert.match((await rejects("DEVICE_ERROR", backend.use("b"))).message, /kernel failed/);
    assert.equal(backend.current, "a");
    await backend.synchronize();
    a.reading = async () => {
      throw new Error("cannot read");
    };
    await rejects("DEVICE_ERROR", backend.use("b"));
    a.reading = async () => {};
    onlyOpen(a);
    backend.copyHtoD(handle, pattern(4, 1));
    await backend.use("b");
    await backend.dispose();
    onlyOpen();
  });

  it("answers reads that were asked for before a swap", async () => {
    const { backend, driver } = await openBench();
    const handle = backend.alloc(4);
    backend.copyHtoD(handle, pattern(4, 1));
    const reading = gate();
    // This driver's synchronize() does not wait for reads, and its last read takes long.
    driver("a").reading = () => reading.promise;
    const bytes = new Uint8Array(4);
    const read = backend.copyDtoH(bytes, handle);
    driver("a").reading = async () => {};
    backend.free(handle);
    const swapped = backend.use("b");
    await settle();
    reading.open();
    await read;
    assert.deepEqual(bytes, pattern(4, 1));
    await swapped;
    assert.equal(backend.current, "b");
    await backend.dispose();
  });

  it("tells its listeners of the backend in use, and of no other", async () => {
    const { backend, driver } = await openBench();
    const heard: string[] = [];
    backend.onError((error) => heard.push(error.message));
    backend.onLost((error) => heard.push(error.code));
    const a = driver("a");
    a.events!.error(new BackendError("DEVICE_ERROR", "from a"));
    await rejects("DEVICE_ERROR", backend.synchronize());
    await backend.use("b");
    a.events!.error(new BackendError("DEVICE_ERROR", "stale"));
    a.events!.lost("stale");
    driver("b").events!.error(new BackendError("DEVICE_ERROR", "from b"));
    driver("b").events!.lost("gone");
    assert.deepEqual(heard, ["from a", "from b", "DEVICE_LOST"]);
    backend.onLost((error) => heard.push(`late ${error.code}`));
    assert.equal(heard.at(-1), "late DEVICE_LOST");
    throws("DEVICE_LOST", () => backend.alloc(4));
    await backend.dispose();
    backend.onLost(() => heard.push("after dispose"));
    assert.lengthOf(heard, 4);
  });

  it("reports a failure to close the old backend as a fault, not as a failed swap", async () => {
    const { backend, driver } = await openBench();
    driver("a").closing = async () => {
      throw new Error("stuck");
    };
    const heard: string[] = [];
    backend.onError((error) => heard.push(error.message));
    assert.equal((await backend.use("b")).to, "b");
    assert.deepEqual(heard, ["dispose: stuck"]);
    await backend.dispose();
  });

  it("takes arguments, operands and scalars that have getters of their classes", async () => {
    const { backend, driver } = await openBench();
    const [a, b] = [backend.alloc(16), backend.alloc(16)];
    const tensor = new (class {
      get handle() {
        return a;
      }
      get byteOffset() {
        return 4;
      }
    })();
    class Call {
      readonly kind = "mul";
      readonly a = tensor;
      readonly output = b;
      get n() {
        return 3;
      }
      get b() {
        return new (class {
          get scalar() {
            return 2;
          }
        })();
      }
    }
    const refusesMore = () =>
      throws(
        "INVALID_ARGUMENT",
        () => backend.binary(Object.assign(new Call(), { strayName: 1 })),
        "strayName",
      );
    const barrier = gate();
    backend.binary(new Call());
    refusesMore();
    driver("a").synchronizing = () => barrier.promise;
    const swapped = backend.use("b");
    await settle();
    backend.binary(new Call());
    refusesMore();
    const old = driver("a");
    barrier.open();
    await swapped;
    await backend.synchronize();
    for (const { runs } of [old, driver("b")]) {
      const problem = runs[0]!.problem as BinaryProblem<unknown>;
      assert.deepInclude(problem, { kind: "mul", shape: [3], b: { scalar: 2 } });
      assert.deepInclude(problem.a, { strides: [1] });
    }
    for (const args of [undefined, null, "gemm"] as never[])
      throws("INVALID_ARGUMENT", () => backend.gemm(args), "arguments");
    await backend.dispose();
  });

  it("is made only of a registry, and a registry only of a list of providers", () => {
    const provider = fakeProvider("a");
    for (const registry of [undefined, null, provider, [provider]] as never[])
      for (const chain of [undefined, "a"])
        throws("INVALID_ARGUMENT", () => new SwitchableBackend(registry, chain), "registry");
    for (const providers of [null, 7, provider] as never[])
      throws("INVALID_ARGUMENT", () => new BackendRegistry(providers), "providers");
  });

  it("refuses handles of the backends underneath", async () => {
    const { backend, driver } = await openBench();
    const handle = backend.alloc(4);
    assert.equal(backend.native(handle), [...driver("a").live][0]);
    assert.equal(backend.native(), driver("a"));
    for (let guess = handle - 3; guess <= handle + 3; guess++)
      if (guess !== handle) throws("INVALID_HANDLE", () => backend.fill(guess as typeof handle, 0, 1));
    throws("INVALID_HANDLE", () =>
      backend.unary({ kind: "neg", n: 1, input: (handle - 1) as typeof handle, output: handle }),
    );
    await backend.dispose();
    assert.deepEqual(backend.memory(), {
      liveAllocations: 0,
      liveBytes: 0,
      peakBytes: 4,
      reservedBytes: 0,
      ...noPool,
    });
  });

  it("gives up a swap under way when dispose is called, and closes both backends", async () => {
    for (const held of ["open", "synchronize", "fill", "forever"] as const) {
      const barrier = gate();
      const { backend, driver, onlyOpen } = await openBench({
        b: (other) => {
          if (held === "open") other.opening = () => barrier.promise;
          if (held === "fill") other.synchronizing = () => barrier.promise;
        },
      });
      backend.alloc(4);
      if (held === "synchronize") driver("a").synchronizing = () => barrier.promise;
      if (held === "forever") driver("a").synchronizing = () => new Promise(() => {});
      const swapped = backend.use("b");
      await settle();
      const disposed = backend.dispose();
      throws("DISPOSED", () => backend.alloc(4));
      barrier.open();
      await rejects("DISPOSED", swapped);
      await disposed;
      onlyOpen();
    }
  });

  it("calls what somebody has put in the place of a method of the backend in use", async () => {
    const calls: string[] = [];
    const provider = fakeProvider("a");
    const watched = {
      ...provider,
      create: () => {
        const inner = provider.create();
        for (const method of ["alloc", "run", "unary"] as const) {
          const original = inner[method] as (...args: unknown[]) => unknown;
          Object.assign(inner, {
            [method]: (...args: unknown[]) => {
              calls.push(method);
              return original.apply(inner, args);
            },
          });
        }
        return inner;
      },
    };
    await using backend = new SwitchableBackend(new BackendRegistry([watched]));
    await backend.init();
    const x = backend.alloc(16);
    backend.unary({ kind: "neg", n: 4, input: x, output: x });
    assert.deepEqual(calls, ["alloc", "unary", "run"]);
  });
});
