import { BackendError, type BackendProvider, BackendRegistry, createBackend } from "@backplane/core";
import { assert } from "chai";
import { FakeDriver, type FakeProvider, fakeProvider, rejects, throws } from "./support/fake-driver.js";

function failing(name: string, error: unknown): FakeProvider {
  return fakeProvider(name, (driver) => {
    driver.opening = async () => {
      throw error;
    };
  });
}

describe("BackendRegistry", () => {
  it("keeps names in the order of registration, each once", () => {
    const registry = new BackendRegistry([fakeProvider("b")]).register(fakeProvider("a"));
    assert.deepEqual(registry.names, ["b", "a"]);
    const error = throws("INVALID_ARGUMENT", () => registry.register(fakeProvider("a")), "provider");
    assert.match(error.message, /"a" is already registered/);
    throws("INVALID_ARGUMENT", () => new BackendRegistry([fakeProvider("x"), fakeProvider("x")]));
  });

  it("passes over providers that create no backend", async () => {
    const broken = (create: () => unknown): FakeProvider =>
      ({ ...fakeProvider("broken"), create }) as FakeProvider;
    for (const create of [async () => createBackend(new FakeDriver()), () => undefined, () => ({})]) {
      const registry = new BackendRegistry([broken(create), fakeProvider("a")]);
      const { name, backend, rejected } = await registry.open();
      assert.equal(name, "a");
      assert.equal(rejected[0]!.reason.code, "UNSUPPORTED");
      await backend.dispose();
    }
  });

  it("takes nothing else for a provider, or for a chain of names", async () => {
    const registry = new BackendRegistry([fakeProvider("a")]);
    const { probe, create } = fakeProvider("b");
    for (const [provider, complaint] of [
      [null, /is null/],
      ["b", /is "b"/],
      [{ probe, create }, /the name undefined/],
      [{ name: "", probe, create }, /the name ""/],
      [{ name: "b", create }, /undefined as probe/],
      [{ name: "b", probe, create: 1 }, /1 as create/],
    ] as const) {
      const call = () => registry.register(provider as unknown as BackendProvider);
      assert.match(throws("INVALID_ARGUMENT", call, "provider").message, complaint);
    }
    assert.deepEqual(registry.names, ["a"]);
    for (const chain of [null, 5, {}] as unknown as string[])
      await rejects("INVALID_ARGUMENT", registry.open(chain), "chain");
  });

  it("keeps the code of an error that another copy of this package made", async () => {
    const foreign = Object.assign(new Error("init: out of it"), {
      name: "BackendError",
      code: "OUT_OF_MEMORY",
    });
    const error = await rejects("UNSUPPORTED", new BackendRegistry([failing("a", foreign)]).open());
    assert.equal((error.cause as BackendError).code, "OUT_OF_MEMORY");
  });

  it("creates backends that are independent and not yet initialised", async () => {
    const provider = fakeProvider("a");
    const registry = new BackendRegistry([provider]);
    const [one, two] = [registry.create("a"), registry.create("a")];
    assert.notEqual(one, two);
    assert.deepEqual(
      provider.drivers.map((driver) => driver.opened),
      [0, 0],
    );
    assert.match(throws("INVALID_ARGUMENT", () => registry.create("c"), "name").message, /"c".*allowed: a$/);
    assert.match(throws("INVALID_ARGUMENT", () => new BackendRegistry().create("c")).message, /none are/);
  });

  it("lists every backend with its device, or with the reason why there is none", async () => {
    const unavailable: BackendProvider = {
      ...fakeProvider("none"),
      probe: async () => ({ available: false, reason: "no adapter" }),
    };
    const rejecting: BackendProvider = {
      ...fakeProvider("rejecting"),
      probe: async () => {
        throw new Error("probe failed");
      },
    };
    const throwing: BackendProvider = {
      ...fakeProvider("throwing"),
      probe: () => {
        throw new Error("at once");
      },
    };
    const nothing = {
      ...fakeProvider("nothing"),
      probe: async () => undefined,
    } as unknown as BackendProvider;
    const providers = [fakeProvider("here"), unavailable, rejecting, throwing, nothing];
    const registry = new BackendRegistry(providers);
    assert.deepEqual(await registry.list(), [
      {
        name: "here",
        available: true,
        device: { kind: "other", name: "here", software: false, details: {} },
      },
      { name: "none", available: false, reason: "no adapter" },
      { name: "rejecting", available: false, reason: "probe: probe failed" },
      { name: "throwing", available: false, reason: "probe: at once" },
      {
        name: "nothing",
        available: false,
        reason: "probe: returned undefined; allowed: an object with available, true or false",
      },
    ]);
  });

  it("opens the first backend that can be opened, and says what it passed over", async () => {
    const providers = [
      failing("a", new Error("no GPU")),
      failing("b", "odd"),
      fakeProvider("c"),
      fakeProvider("d"),
    ];
    const registry = new BackendRegistry(providers);
    const opened = await registry.open();
    assert.equal(opened.name, "c");
    assert.equal(opened.backend.name, "c");
    assert.deepEqual(
      opened.rejected.map(({ name, reason }) => [name, reason.code, reason.message]),
      [
        ["a", "UNSUPPORTED", "init: no GPU"],
        ["b", "UNSUPPORTED", "init: odd"],
      ],
    );
    opened.backend.alloc(4);
    await opened.backend.dispose();
    assert.equal(providers[2]!.drivers[0]!.closed, 1);
    assert.lengthOf(providers[3]!.drivers, 0, "what is not needed is not created");
  });

  it("takes one name or a chain in any order", async () => {
    const registry = new BackendRegistry([
      fakeProvider("a"),
      fakeProvider("b"),
      failing("c", new Error("no")),
    ]);
    for (const [chain, name] of [
      ["b", "b"],
      [["b", "a"], "b"],
      [["c", "b"], "b"],
    ] as const) {
      const opened = await registry.open(chain);
      assert.equal(opened.name, name);
      await opened.backend.dispose();
    }
  });

  it("refuses a misspelt name even where it would not be reached", async () => {
    const provider = fakeProvider("a");
    await rejects("INVALID_ARGUMENT", new BackendRegistry([provider]).open(["a", "cpuu"]), "name");
    assert.lengthOf(provider.drivers, 0);
  });

  it("fails with every reason where nothing can be opened", async () => {
    const registry = new BackendRegistry([
      failing("a", new Error("no GPU")),
      failing("b", new Error("no threads")),
    ]);
    const error = await rejects("UNSUPPORTED", registry.open());
    assert.match(error.message, /a: init: no GPU; b: init: no threads/);
    assert.instanceOf(error.cause, BackendError);
    assert.match((await rejects("UNSUPPORTED", registry.open([]))).message, /none was named/);
  });

  it("goes on where a provider cannot even create its backend, or a failed one cannot be closed", async () => {
    const driver = new FakeDriver({ name: "stuck" });
    driver.opening = async () => {
      throw new Error("half open");
    };
    const stuck = createBackend(driver);
    let disposals = 0;
    stuck.dispose = async () => {
      disposals++;
      throw new Error("stuck");
    };
    const registry = new BackendRegistry([
      {
        ...fakeProvider("throws"),
        create: () => {
          throw new Error("no WebAssembly");
        },
      },
      { ...fakeProvider("stuck"), create: () => stuck },
      fakeProvider("good"),
    ]);
    assert.match(throws("UNSUPPORTED", () => registry.create("throws")).message, /no WebAssembly/);
    const opened = await registry.open();
    assert.equal(opened.name, "good");
    assert.deepEqual(
      opened.rejected.map(({ name, reason }) => [name, reason.code]),
      [
        ["throws", "UNSUPPORTED"],
        ["stuck", "UNSUPPORTED"],
      ],
    );
    assert.equal(disposals, 1, "what could not be opened is disposed of");
    await opened.backend.dispose();
  });
});
