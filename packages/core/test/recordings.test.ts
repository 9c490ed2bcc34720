import {
  type BackendDriver,
  BackendRegistry,
  createBackend,
  type DeviceHandle,
  type DriverRecording,
  FallbackBackend,
  type Recording,
  SwitchableBackend,
} from "@backplane/core";
import { assert } from "chai";
import { FakeDriver, fakeProvider, throws } from "./support/fake-driver.js";

/** Keeps an account of what it is asked to plan. */
class RecordingDriver extends FakeDriver implements BackendDriver {
  readonly planned: number[] = [];
  readonly log: string[] = [];
  failing = false;

  record(): DriverRecording {
    const parts: (() => void)[] = [];
    return {
      plan: (place, enqueue) => {
        if (this.failing) throw new Error("no room for the part");
        this.planned.push(place);
        parts[place] = enqueue;
      },
      run: () => {
        this.log.push("run");
        for (const part of parts) part();
      },
      dispose: () => this.log.push("dispose"),
    };
  }

  taken(): number[] {
    return this.planned.splice(0);
  }
}

type Vary = (part: (values: { readonly count: number }) => void) => void;

/** A slice whose properties are getters of a class. */
class Slice {
  readonly #handle: DeviceHandle;
  constructor(handle: DeviceHandle) {
    this.#handle = handle;
  }
  get handle(): DeviceHandle {
    return this.#handle;
  }
  get byteOffset(): number {
    return 4;
  }
}

describe("A recorded call", () => {
  it("keeps slices in lists whose properties are getters of a class", async () => {
    const driver = new FakeDriver();
    const backend = createBackend(driver);
    await backend.init();
    const [input, output] = [backend.alloc(12), backend.alloc(8)];
    const step = backend.record(() =>
      backend.map({
        ...{ shape: [2], inputs: [new Slice(input)], outputs: [output], results: [1] },
        nodes: [{ input: 0 }, { unary: "neg", x: 0 }],
      }),
    );
    step.run();
    const { inputs } = driver.runs[0]!.problem as { inputs: { region: { byteOffset: number } }[] };
    assert.equal(inputs[0]!.region.byteOffset, 4);
    await backend.dispose();
  });
});

describe("A recording on a driver that has them", () => {
  let driver: RecordingDriver;
  let backend: ReturnType<typeof createBackend>;
  let [a, b, other]: DeviceHandle[] = [];
  let step: Recording<{ readonly count: number }>;
  beforeEach(async () => {
    driver = new RecordingDriver();
    backend = createBackend(driver);
    await backend.init();
    [a, b, other] = [backend.alloc(16), backend.alloc(16), backend.alloc(16)];
    step = backend.record(
      (vary: Vary) => {
        backend.copyDtoD(b!, a!, 4);
        backend.unary({ kind: "neg", n: 4, input: b!, output: b! });
        vary(({ count }) => backend.fill(b!, 1, count));
        backend.fill(a!, 2, 1);
      },
      { count: 2 },
    );
  });
  afterEach(() => backend.dispose());

  it("is planned when it is made, and only where it changes after that", () => {
    assert.deepEqual(driver.taken(), [0, 1, 2, 3]);
    step.run();
    step.run({});
    step.run({ values: { count: 2 } });
    assert.deepEqual(driver.taken(), []);
    step.run({ values: { count: 3 } });
    step.run({ values: { count: 3 } });
    assert.deepEqual(driver.taken(), [2]);
    step.run();
    assert.deepEqual(driver.taken(), [2]);
    const operands = new Map([[a!, other!]]);
    step.run({ operands });
    step.run({ operands: new Map(operands) });
    assert.deepEqual(driver.taken(), [0, 3]);
    // The map is the caller's.
    operands.set(a!, b!);
    throws("INVALID_ARGUMENT", () => step.run({ operands }));
    step.run({ values: { count: 1 } });
    assert.deepEqual(driver.taken(), [0, 2, 3]);
    assert.equal(driver.log.length, 9);
  });

  it("takes slices whose properties are getters of a class in place of recorded operands", () => {
    step.run({ operands: new Map([[a!, new Slice(other!)]]) });
    // Part 0 copies from byte 4 on, and the last part fills what begins there.
    assert.include(driver.calls, "copy 0 4 4");
    assert.equal(driver.calls.at(-1), "fill 4 4 40000000");
  });

  it("refuses what is no operand in the place of a recorded one, whatever their sum would be", async () => {
    const chain = fakeProvider("switched");
    const switchable = new SwitchableBackend(new BackendRegistry([chain]));
    const fallback = new FallbackBackend(createBackend(new FakeDriver()), createBackend(new FakeDriver()));
    for (const each of [backend, switchable, fallback]) {
      await each.init();
      const [from, to, x] = [each.alloc(16), each.alloc(16), each.alloc(16)];
      const copy = each.record(() => each.copyDtoD(to, { handle: from, byteOffset: 8 }, 4));
      const run = (operand: unknown) => () =>
        copy.run({ operands: new Map([[from, operand as DeviceHandle]]) });
      for (const operand of [
        undefined,
        null,
        "x",
        { scalar: 2 },
        { byteOffset: 4 },
        { handle: undefined, byteOffset: 0 },
      ])
        throws("INVALID_HANDLE", run(operand));
      for (const byteOffset of [-4, 0.5, Number.NaN, "4"])
        throws("INVALID_ARGUMENT", run({ handle: x, byteOffset }), "operands.byteOffset");
      copy.run();
      copy.run({ operands: new Map([[from, { handle: x, byteOffset: 4 }]]) });
      await each.dispose();
    }
  });

  it("plans again what could not be planned", () => {
    driver.taken();
    driver.failing = true;
    const error = throws("DEVICE_ERROR", () => step.run({ values: { count: 3 } }));
    assert.match(error.message, /no room for the part/);
    driver.failing = false;
    step.run({ values: { count: 3 } });
    assert.deepEqual(driver.taken(), [2]);
    assert.deepEqual(driver.log, ["run"]);
  });

  it("looks again at calls that were made before one of their handles ended", () => {
    driver.taken();
    const operands = new Map([[backend.alloc(16), other!]]);
    throws("INVALID_ARGUMENT", () => step.run({ values: { count: 3 }, operands }));
    backend.free(b!);
    throws("INVALID_HANDLE", () => step.run({ values: { count: 3 } }));
    assert.deepEqual(driver.taken(), []);
  });

  it("makes a part that varies again after it has failed", () => {
    let fails = false;
    const failing = backend.record(
      (vary: Vary) => {
        vary(({ count }) => {
          if (fails) throw new Error("the part fails");
          backend.fill(b!, 1, count);
        });
      },
      { count: 1 },
    );
    fails = true;
    assert.throws(() => failing.run({ values: { count: 2 } }), "the part fails");
    assert.throws(() => failing.run(), "the part fails");
    fails = false;
    driver.taken();
    failing.run();
    assert.deepEqual(driver.taken(), [0]);
    // The backend takes calls again.
    backend.fill(a!, 1, 1);
  });

  it("is disposed of once, and not on a device that is gone", async () => {
    step.dispose();
    step.dispose();
    assert.deepEqual(driver.log, ["dispose"]);
    const late = backend.record(() => backend.fill(a!, 2, 1));
    driver.events!.lost("power");
    late.dispose();
    await backend.init();
    assert.deepEqual(driver.log, ["dispose"]);
  });

  it("names the argument that was freed, and refuses parts within parts and values that it lacks", () => {
    backend.free(a!);
    const error = throws("INVALID_HANDLE", () => step.run(), "source");
    assert.equal(error.operation, "copyDtoD");
    throws("INVALID_ARGUMENT", () =>
      backend.record((vary: Vary) => vary(() => vary(() => {})), { count: 1 }),
    );
    throws("INVALID_ARGUMENT", () => step.run({ values: { cuont: 1 } as never }), "values.cuont");
    throws("INVALID_ARGUMENT", () => step.run({ operand: new Map() } as never), "operand");
    throws("INVALID_ARGUMENT", () => step.run({ values: 7 as never }), "values");
    throws("INVALID_ARGUMENT", () => backend.record(() => {}, 7 as never), "values");
  });

  it("refuses parts that are given when recording is over, and does not make their calls", () => {
    let kept: Vary | undefined;
    const empty = backend.record((vary: Vary) => (kept = vary), { count: 1 });
    let made = 0;
    throws("INVALID_ARGUMENT", () => kept!(() => made++), "part");
    assert.equal(made, 0);
    empty.dispose();
  });

  it("does nothing on a fresh device if it has no operands", async () => {
    const empty = backend.record(() => {});
    driver.events!.lost("power");
    await backend.init();
    empty.run();
    assert.deepEqual(driver.log, []);
  });
});
