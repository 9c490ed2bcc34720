import {
  BackendRegistry,
  type DeviceHandle,
  openScope,
  Scope,
  SwitchableBackend,
  withScope,
} from "@backplane/core";
import { assert } from "chai";
import { fakeProvider, gate, openFake, rejects, throws } from "./support/fake-driver.js";

describe("Scope", () => {
  it("frees what was allocated by way of it, and nothing else", async () => {
    const { backend } = await openFake();
    const outside = backend.alloc(4);
    const result = withScope(backend, (scope) => {
      const made = [scope.alloc(8), scope.alloc(16, { zero: false }), scope.upload(new Float32Array(3))];
      assert.equal(backend.memory().liveBytes, 4 + 8 + 16 + 12);
      return made.length;
    });
    assert.equal(result, 3);
    assert.deepInclude(backend.memory(), { liveAllocations: 1, liveBytes: 4 });
    backend.free(outside);
    await backend.dispose();
  });

  it("lets handles escape, also to another scope, and frees single ones early", async () => {
    const { backend } = await openFake();
    const outer = openScope(backend);
    const kept = withScope(backend, (scope) => {
      scope.free(scope.alloc(100));
      assert.equal(backend.memory().liveBytes, 0);
      return outer.add(scope.keep(scope.alloc(8)));
    });
    backend.fill(kept, 1, 2);
    outer.dispose();
    throws("INVALID_HANDLE", () => backend.free(kept));
    throws("INVALID_HANDLE", () => outer.keep(kept), "handle");
    throws("INVALID_HANDLE", () => openScope(backend).free(backend.alloc(4)), "handle");
    await backend.dispose();
  });

  it("ends with an error as with a result, at once or when a promise settles", async () => {
    const { backend } = await openFake();
    const live = () => backend.memory().liveAllocations;
    assert.throws(
      () =>
        withScope(backend, (scope) => {
          scope.alloc(4);
          throw new Error("of the caller");
        }),
      "of the caller",
    );
    assert.equal(live(), 0);
    const [first, second] = [gate(), gate()];
    const one = withScope(backend, async (scope) => {
      scope.alloc(4);
      await first.promise;
      scope.alloc(8);
      return "done";
    });
    const other = withScope(backend, async (scope) => {
      scope.alloc(16);
      await second.promise;
      throw new Error("of the caller");
    });
    assert.equal(live(), 2, "scopes are open side by side");
    second.open();
    assert.equal(await other.catch((error: Error) => error.message), "of the caller");
    assert.deepInclude(backend.memory(), { liveAllocations: 1, liveBytes: 4 });
    first.open();
    assert.equal(await one, "done");
    assert.equal(live(), 0);
    await backend.dispose();
  });

  it("takes nothing more when it has ended, so that nothing is left behind", async () => {
    const { backend } = await openFake();
    const scope = new Scope(backend);
    scope[Symbol.dispose]();
    for (const call of [
      () => scope.alloc(4),
      () => scope.upload(new Uint8Array(4)),
      () => scope.add(1 as DeviceHandle),
    ])
      assert.match(throws("DISPOSED", call).message, /the scope was disposed of/);
    assert.equal(backend.memory().liveAllocations, 0);
    scope.dispose();
    await backend.dispose();
  });

  it("passes over what is gone already", async () => {
    const { driver, backend } = await openFake();
    const scope = openScope(backend);
    const freed = scope.alloc(4);
    const live = scope.alloc(8);
    backend.free(freed);
    scope.dispose();
    throws("INVALID_HANDLE", () => backend.free(live));

    const lost = openScope(backend);
    lost.alloc(4);
    driver.events!.lost("gone");
    lost.dispose();
    await backend.init();
    lost.dispose();
    const closed = openScope(backend);
    closed.alloc(4);
    await backend.dispose();
    closed.dispose();
  });

  it("frees handles that outlive a loss when it is asked again", async () => {
    const backend = new SwitchableBackend(new BackendRegistry([fakeProvider("one"), fakeProvider("two")]));
    await backend.init();
    const scope = openScope(backend);
    scope.alloc(64);
    (backend.native() as { events: { lost(reason: string): void } }).events.lost("gone");
    scope.dispose();
    await backend.use("two");
    assert.equal(backend.memory().liveAllocations, 1);
    scope.dispose();
    assert.equal(backend.memory().liveAllocations, 0);
    await backend.dispose();
  });

  it("goes on after a failure to free, and tells the first one", async () => {
    const { driver, backend } = await openFake();
    const scope = openScope(backend);
    for (const bytes of [4, 8, 16]) scope.alloc(bytes);
    const { free } = driver;
    driver.free = (memory) => {
      free.call(driver, memory);
      if (memory.bytes.length !== 16) throw new Error(`no way to free ${memory.bytes.length}`);
    };
    assert.match(throws("DEVICE_ERROR", () => scope.dispose()).message, /^free: no way to free 4/);
    assert.equal(backend.memory().liveAllocations, 0);
    const failing = (body: () => unknown) =>
      withScope(backend, (inner) => {
        inner.alloc(4);
        return body();
      });
    throws("DEVICE_ERROR", () => failing(() => 1));
    await rejects("DEVICE_ERROR", failing(async () => 1) as Promise<unknown>);
    assert.throws(
      () =>
        failing(() => {
          throw new Error("of the caller");
        }),
      "of the caller",
    );
    await backend.dispose();
  });
});
