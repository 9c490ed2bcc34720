import { BackendError, BackendRegistry, type DeviceHandle, SwitchableBackend } from "@backplane/core";
import { assert } from "chai";
import { fakeProvider, gate, noPool, rejects, settle, throws } from "./support/fake-driver.js";
import { bytesOf, lostBench, retryInListener } from "./support/losing.js";
import { type Bench, openBench, pattern } from "./support/swapping.js";

const ways = {
  "use of another backend": { to: "b", move: (backend: SwitchableBackend) => backend.use("b") },
  "use of the same backend": { to: "a", move: (backend: SwitchableBackend) => backend.use("a") },
  init: { to: "a", move: (backend: SwitchableBackend) => backend.init() },
} as const;

describe("a switchable backend whose device is lost", () => {
  it("refuses everything, whatever else is wrong with it, and keeps its handles", async () => {
    const { backend, one, driver } = await lostBench();
    const before = backend.memory();
    const nonsense = 1 as DeviceHandle;
    throws("DEVICE_LOST", () => backend.alloc(-1));
    throws("DEVICE_LOST", () => backend.free(nonsense));
    throws("DEVICE_LOST", () => backend.free(one));
    throws("DEVICE_LOST", () => backend.copyHtoD(one, pattern(8, 1)));
    throws("DEVICE_LOST", () => backend.copyDtoD(nonsense, nonsense, -1));
    throws("DEVICE_LOST", () => backend.fill(one, 0, 2));
    throws("DEVICE_LOST", () => backend.unary({ kind: "neg", n: 1, input: nonsense, output: one }));
    throws("DEVICE_LOST", () => backend.native());
    throws("DEVICE_LOST", () => backend.inner);
    await rejects("DEVICE_LOST", backend.copyDtoH(new Uint8Array(1), nonsense));
    const { message } = await rejects("DEVICE_LOST", backend.synchronize());
    assert.match(message, /^synchronize: a: the device was lost: power; use\(name\) or init\(\)/);
    assert.equal(backend.capabilities.device.name, "a");
    assert.isTrue(backend.supports("gemm"));
    assert.deepEqual(backend.memory(), { ...before, reservedBytes: 0 });
    await backend.dispose();
    assert.equal(driver("a").closed, 1);
  });

  for (const [way, { to, move }] of Object.entries(ways))
    describe(`moves on by ${way}`, () => {
      it("with a clear account, and revives what is written as a whole", async () => {
        const { backend, bench, one, two, empty, driver, onlyOpen } = await lostBench();
        const old = driver("a");
        const account = [
          { handle: one, bytes: 8 },
          { handle: two, bytes: 16 },
        ];
        assert.deepEqual(backend.lost, account);
        const report = await move(backend);
        assert.equal(backend.current, to);
        assert.notEqual(driver(to), old);
        onlyOpen(driver(to));
        assert.equal(old.closed, 1);
        if (report !== undefined)
          assert.deepInclude(report, { from: "a", to, allocations: 1, bytes: 0, lost: account });
        assert.deepEqual(backend.lost, account);
        assert.deepEqual(backend.memory(), {
          ...{ liveAllocations: 3, liveBytes: 24, peakBytes: 24, reservedBytes: 24, ...noPool },
        });
        backend.copyHtoD(empty, new Uint8Array(0));
        await backend.copyDtoH(new Uint8Array(0), empty);
        const heard: unknown[] = [];
        backend.onLost((error) => heard.push(error));
        assert.lengthOf(heard, 0, "it is over");

        const runs = driver(to).calls.length;
        const uses: [string, () => unknown][] = [
          ["destination", () => backend.copyHtoD(one, pattern(7, 1))],
          ["destination", () => backend.copyHtoD({ handle: one, byteOffset: 1 }, pattern(7, 1))],
          ["destination", () => backend.copyHtoD(one, new Uint8Array(0))],
          ["destination", () => backend.fill(one, 0, 1)],
          ["destination", () => backend.fill({ handle: one, byteOffset: 4 }, 0, 1)],
          ["destination", () => backend.copyDtoD(one, { handle: two, byteOffset: 0 }, 8)],
          ["source", () => backend.copyDtoD(empty, one, 0)],
          ["handle", () => backend.native(one)],
          ["input", () => backend.unary({ kind: "neg", n: 1, input: one, output: two })],
          ["output", () => backend.reduce({ kind: "sum", shape: [0], input: empty, output: one })],
        ];
        for (const [argument, use] of uses) {
          const { message } = throws("DEVICE_LOST", use, argument);
          assert.match(message, /lost its contents.* allowed: free, or one copyHtoD or fill of all its \d+/);
        }
        const error = await rejects("DEVICE_LOST", backend.copyDtoH(new Uint8Array(1), one), "source");
        assert.match(error.message, /^copyDtoH: source has lost its contents/);
        throws("OUT_OF_BOUNDS", () => backend.copyHtoD(one, new Uint8Array(9)), "destination");
        throws("OUT_OF_BOUNDS", () => backend.fill(one, 0, 3), "destination");
        assert.lengthOf(driver(to).calls.slice(runs), 0, "nothing has reached the device");
        assert.deepEqual(backend.lost, account);

        backend.copyHtoD({ handle: one, byteOffset: 0 }, pattern(8, 5));
        assert.deepEqual(backend.lost, account.slice(1));
        assert.deepEqual(await bytesOf(bench, one, 8), pattern(8, 5));
        backend.fill(two, 9, 16, "u8");
        assert.deepEqual(backend.lost, []);
        assert.deepEqual([...(await bytesOf(bench, two, 16))], new Array(16).fill(9));
        assert.deepEqual((await backend.use("c")).lost, []);
        assert.deepEqual(await bytesOf(bench, one, 8), pattern(8, 5));
        for (const handle of [one, two, empty]) backend.free(handle);
        assert.deepInclude(backend.memory(), { liveAllocations: 0, liveBytes: 0, reservedBytes: 0 });
        await backend.dispose();
        onlyOpen();
      });

      it("frees what is lost", async () => {
        const { backend, one, two, driver } = await lostBench();
        await move(backend);
        backend.free(one);
        assert.deepEqual(backend.lost, [{ handle: two, bytes: 16 }]);
        assert.equal(driver(to).reservedBytes(), 16);
        throws("INVALID_HANDLE", () => backend.free(one));
        await backend.dispose();
      });

      it("and again after another loss", async () => {
        const { backend, bench, one, two, driver } = await lostBench();
        const heard: string[] = [];
        backend.onLost((error) => heard.push(error.message));
        await move(backend);
        backend.copyHtoD(one, pattern(8, 3));
        const fresh = backend.alloc(4);
        driver(to).events!.lost("more power");
        assert.lengthOf(heard, 2);
        assert.deepEqual(
          backend.lost.map(({ handle }) => handle),
          [one, two, fresh],
        );
        await move(backend);
        assert.lengthOf(backend.lost, 3);
        await rejects("DEVICE_LOST", backend.copyDtoH(new Uint8Array(1), one));
        backend.fill(fresh, 1, 4, "u8");
        assert.deepEqual([...(await bytesOf(bench, fresh, 4))], [1, 1, 1, 1]);
        await backend.dispose();
        bench.onlyOpen();
      });

      it("or stays lost where that fails, and may try again", async () => {
        for (const problem of ["open", "room", "fault", "loss"] as const) {
          let isBroken = false;
          const prepare = (driver: ReturnType<Bench["driver"]>): void => {
            if (!isBroken) return;
            const fail = (): never => {
              throw new BackendError("OUT_OF_MEMORY", "not now");
            };
            if (problem === "open") driver.opening = async () => fail();
            if (problem === "room") driver.allocating = fail;
            if (problem === "fault") driver.synchronizing = async () => fail();
            if (problem === "loss") driver.synchronizing = async () => driver.events!.lost("at once");
          };
          const { backend, bench, one } = await lostBench({ a: prepare, b: prepare, c: prepare });
          isBroken = true;
          const isChain = way === "init" && problem === "open";
          const code = problem === "loss" ? "DEVICE_LOST" : isChain ? "UNSUPPORTED" : "OUT_OF_MEMORY";
          const { message } = await rejects(code, move(backend) as Promise<unknown>);
          if (problem === "loss") assert.match(message, new RegExp(`: ${to} was lost while it took over`));
          bench.onlyOpen();
          throws("DEVICE_LOST", () => backend.free(one));
          assert.deepEqual(backend.memory().liveBytes, 24);
          isBroken = false;
          await move(backend);
          assert.lengthOf(backend.lost, 2);
          backend.fill(one, 1, 8, "u8");
          await backend.dispose();
          bench.onlyOpen();
        }
      });

      it("and closes everything where dispose is called meanwhile", async () => {
        for (const held of ["close", "open", "fill"] as const) {
          const barrier = gate();
          let isHeld = false;
          const prepare = (driver: ReturnType<Bench["driver"]>): void => {
            if (held === "close") driver.closing = () => barrier.promise;
            if (!isHeld) return;
            if (held === "open") driver.opening = () => barrier.promise;
            if (held === "fill") driver.synchronizing = () => barrier.promise;
          };
          const { backend, bench } = await lostBench({ a: prepare, b: prepare });
          isHeld = true;
          const moved = move(backend) as Promise<unknown>;
          await settle();
          const disposed = backend.dispose();
          throws("DISPOSED", () => backend.alloc(4));
          barrier.open();
          await rejects("DISPOSED", moved);
          await disposed;
          bench.onlyOpen();
          assert.deepEqual(backend.memory(), {
            ...{ liveAllocations: 0, liveBytes: 0, peakBytes: 24, reservedBytes: 0, ...noPool },
          });
        }
      });
    });

  it("initialises once for all who ask, also while a swap does the same", async () => {
    const { backend, driver, providers } = await lostBench();
    const first = backend.init();
    assert.equal(backend.init(), first);
    await first;
    assert.equal(backend.init(), first);
    assert.lengthOf(providers.a.drivers, 2);
    driver("a").events!.lost("again");
    const swapped = backend.use("c");
    const second = backend.init();
    assert.notEqual(second, first);
    await Promise.all([swapped, second]);
    assert.equal(backend.current, "c", "the swap came first");
    assert.lengthOf(providers.a.drivers, 2);
    await backend.dispose();
  });

  it("initialises by its chain, and passes over what cannot be opened", async () => {
    let hasPower = true;
    const fragile = fakeProvider("fragile", (driver) => {
      driver.opening = async () => {
        if (!hasPower) throw new Error("no power");
      };
    });
    const backend = new SwitchableBackend(
      new BackendRegistry([fakeProvider("never"), fragile, fakeProvider("safe")]),
      ["fragile", "safe"],
    );
    await backend.init();
    hasPower = false;
    fragile.drivers[0]!.events!.lost("power");
    await backend.init();
    assert.equal(backend.current, "safe");
    await backend.dispose();
  });

  it("may move on from within a listener", async () => {
    const bench = await openBench();
    const { backend, driver } = bench;
    const handle = backend.alloc(4);
    let moved: Promise<unknown> | undefined;
    backend.onLost(() => {
      moved = backend.use("b");
    });
    driver("a").events!.lost("power");
    await moved;
    backend.copyHtoD(handle, pattern(4, 1));
    assert.deepEqual(await bytesOf(bench, handle, 4), pattern(4, 1));
    await backend.dispose();
  });

  it("may retry from within a listener while the first attempt is still failing", async () => {
    const fragile = fakeProvider("fragile");
    const create = fragile.create.bind(fragile);
    fragile.create = () => {
      const opened = create();
      const driver = fragile.drivers.at(-1)!;
      const init = opened.init.bind(opened);
      if (fragile.drivers.length === 1)
        opened.init = async () => {
          await init();
          driver.events!.lost("at once");
        };
      return opened;
    };
    await retryInListener(new SwitchableBackend(new BackendRegistry([fragile])));
    assert.deepEqual(
      fragile.drivers.map((driver) => driver.isOpen),
      [false, false],
    );
  });

  it("forgets a fault of the lost one that no promise has reported", async () => {
    const bench = await openBench();
    const { backend, driver } = bench;
    const barrier = gate();
    driver("a").synchronizing = () => barrier.promise;
    const swapped = backend.use("b");
    await settle();
    driver("b").allocating = () => {
      throw new BackendError("OUT_OF_MEMORY", "full");
    };
    backend.alloc(4);
    barrier.open();
    await swapped;
    driver("b").events!.lost("power");
    const { lost } = await backend.use("a");
    assert.lengthOf(lost, 1, "what could not be made has got room now");
    await backend.synchronize();
    await backend.dispose();
  });

  it("refuses a name that is not registered, and stays lost", async () => {
    const { backend, driver } = await lostBench();
    await rejects("INVALID_ARGUMENT", backend.use("z"));
    assert.equal(driver("a").closed, 0);
    throws("DEVICE_LOST", () => backend.alloc(4));
    await backend.dispose();
  });

  it("does not care how the lost one closes, nor what it says later", async () => {
    const { backend, driver } = await lostBench();
    const old = driver("a");
    old.closing = async () => {
      throw new Error("stuck");
    };
    const heard: string[] = [];
    backend.onError((error) => heard.push(error.message));
    await backend.use("b");
    old.events!.error(new BackendError("DEVICE_ERROR", "late"));
    old.events!.lost("late");
    await backend.synchronize();
    assert.deepEqual(heard, []);
    await backend.dispose();
  });

  it("carries what is lost, and only that, through a swap without loss", async () => {
    const { backend, bench, one, two, driver } = await lostBench();
    await backend.use("b");
    backend.copyHtoD(one, pattern(8, 7));
    const reads = driver("b").calls.filter((call) => call.startsWith("read")).length;
    const report = await backend.use("c");
    assert.deepInclude(report, { allocations: 2, bytes: 8, lost: [{ handle: two, bytes: 16 }] });
    assert.equal(driver("b").calls.filter((call) => call.startsWith("read")).length, reads + 1);
    assert.deepEqual((await backend.use("c")).lost, [{ handle: two, bytes: 16 }]);
    assert.deepEqual(await bytesOf(bench, one, 8), pattern(8, 7));
    await rejects("DEVICE_LOST", backend.copyDtoH(new Uint8Array(1), two));
    await backend.dispose();
  });
});

describe("the backend in use", () => {
  it("can be reached, with handles of its own", async () => {
    const bench = await openBench();
    const { backend } = bench;
    const handle = backend.alloc(4);
    const { inner } = backend;
    assert.equal(inner.name, "a");
    throws("INVALID_HANDLE", () => inner.free(handle));
    await backend.use("b");
    assert.equal(backend.inner.name, "b");
    throws("DISPOSED", () => inner.alloc(4));
    await backend.dispose();
    throws("DISPOSED", () => backend.inner);
    throws("NOT_INITIALIZED", () => new SwitchableBackend(new BackendRegistry()).inner);
  });
});
