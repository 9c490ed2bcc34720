import { assert } from "chai";
import { input, output, program } from "#src/program/program.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import type { BatchLimits } from "#src/runtime/policy.js";
import type { DispatchObserver } from "#src/runtime/queue-options.js";
import { fakeMemory } from "./fake-device.js";
import { FakeSession } from "./fake-session.js";

const small = program({
  name: "small",
  bindings: { source: input("f32"), data: output("f32") },
  parameters: { n: "u32" },
  body: "small body",
});

class Rig extends FakeSession {
  readonly a = this.region(1);
  readonly b = this.region(2);
  readonly c = this.region(3);

  constructor(immediateBytes?: number, limits?: BatchLimits) {
    super({ ...(immediateBytes === undefined ? {} : { immediateBytes }), limits, poolBytes: 2 ** 20 });
    this.fake.taken();
  }

  region(id: number) {
    return { memory: fakeMemory(64, id), byteOffset: 0, byteLength: 64 };
  }

  /** Plans a part of dispatches with these parameters. */
  plan(place: number, values: readonly number[], source = this.a, data = this.b): void {
    const { recording } = this;
    recording.plan(place, () => {
      for (const n of values)
        recording.recorder.run("unary", (context) => context.dispatch(small, { source, data }, { n }, n));
    });
  }

  /** The first dimension of each dispatch, and the submits between them, since the last look. */
  dispatched(): (number | "submit")[] {
    return this.fake
      .taken("dispatch", "submit")
      .map(([name, x]) => (name === "submit" ? name : (x as number)));
  }
}

describe("A recording of dispatches", () => {
  it("carries out nothing while it is planned, and all parts in order at each run", () => {
    const rig = new Rig();
    rig.plan(0, [1, 2]);
    rig.plan(1, []);
    rig.plan(2, [3]);
    assert.deepEqual(rig.dispatched(), []);
    rig.recording.run();
    rig.recording.run();
    assert.deepEqual(rig.dispatched(), [1, 2, 3, 1, 2, 3]);
    rig.plan(1, [7, 8]);
    rig.plan(0, [9]);
    rig.recording.run();
    assert.deepEqual(rig.dispatched(), [9, 7, 8, 3]);
  });

  it("keeps the parameters of each dispatch, as immediates and in blocks", () => {
    for (const immediates of [0, 64]) {
      const rig = new Rig(immediates);
      rig.plan(0, [5, 6]);
      // Other calls between the runs have parameters of their own.
      for (let run = 0; run < 2; run++) {
        rig.recorder.dispatch(small, { source: rig.a, data: rig.c }, { n: 77 }, 1);
        rig.recording.run();
      }
      rig.queue.flush();
      const calls = rig.fake.taken("setBindGroup", "setImmediates", "upload", "dispatch");
      const offsets = calls.filter((call) => call[0] === "setBindGroup" && call.length === 4);
      const uploaded = calls.find(([name]) => name === "upload")?.slice(1) as number[] | undefined;
      const values =
        immediates > 0
          ? calls.filter(([name]) => name === "setImmediates").map((call) => call[3])
          : offsets.map((call) => uploaded![(call[3] as number[])[0]! / 4 + 2]);
      assert.deepEqual(values, [77, 5, 6, 77, 5, 6]);
    }
  });

  it("makes no object of the device again", () => {
    const rig = new Rig();
    rig.plan(0, [5, 6]);
    rig.recording.run();
    rig.fake.taken();
    for (let run = 0; run < 3; run++) rig.recording.run();
    assert.deepEqual(rig.fake.taken("module", "pipeline", "group", "buffer", "layout"), []);
  });

  it("submits a full batch first, then longer ones, and never one with too much work", () => {
    const limits = { dispatches: 4, replayed: 10, work: 1000, shown: 0, recording: 10 };
    const rig = new Rig(64, limits);
    rig.plan(0, new Array<number>(27).fill(1));
    rig.recorder.dispatch(small, { source: rig.a, data: rig.b }, { n: 2 }, 2);
    rig.recording.run();
    const lengths = (): number[] => {
      const batches = [0];
      for (const one of rig.dispatched()) one === "submit" ? batches.push(0) : batches[batches.length - 1]!++;
      return batches;
    };
    assert.deepEqual(lengths(), [4, 10, 10, 4]);
    // A plain dispatch finds its batch full.
    rig.recorder.dispatch(small, { source: rig.a, data: rig.b }, { n: 2 }, 2);
    assert.deepEqual(lengths(), [1, 0]);
    const heavy = new Rig(64, { ...limits, work: 64 / 16e6 });
    heavy.plan(0, [1, 1, 1]);
    heavy.recording.run();
    assert.equal(heavy.fake.taken("submit").length, 3);
  });

  it("gives an observer batches of the usual length", () => {
    const rig = new Rig(64, { dispatches: 4, replayed: 10, work: 1000, shown: 0, recording: 10 });
    const seen: string[] = [];
    const observer: DispatchObserver = {
      timestampWrites: (operation) => void seen.push(operation),
      beforeSubmit: () => seen.push("submit"),
      afterSubmit() {},
    };
    rig.queue.observe(observer);
    rig.plan(0, new Array<number>(9).fill(1));
    rig.recording.run();
    const four = ["unary", "unary", "unary", "unary", "submit"];
    assert.deepEqual(seen, [...four, ...four, "unary"]);
  });

  it("marks what it uses with the batch, and tells pending reads before it writes", () => {
    const rig = new Rig();
    rig.plan(0, [1]);
    const told: string[] = [];
    for (const [name, { memory }] of [
      ["a", rig.a],
      ["b", rig.b],
    ] as const)
      memory.pendingReads.add({ detach: () => void told.push(name) });
    rig.queue.encoder("copyDtoH");
    rig.queue.flush();
    rig.recording.run();
    assert.deepEqual(told, ["b"]);
    for (const { memory } of [rig.a, rig.b]) assert.equal(memory.batch, rig.queue.batch);
  });

  it("clears memory once, when it is planned, and leaves zeros that are still to be read", () => {
    const rig = new Rig();
    rig.a.memory.stale = true;
    rig.a.memory.bytes = 64;
    rig.plan(0, [5]);
    assert.isFalse(rig.a.memory.stale);
    assert.equal(rig.dispatched().length, 1);
    rig.c.memory.stale = true;
    rig.c.memory.bytes = 64;
    rig.recording.plan(1, () => rig.recording.recorder.fill(rig.c, 7));
    // Not by the fill, which comes later.
    assert.isFalse(rig.c.memory.stale);
    assert.equal(rig.dispatched().length, 1);
    rig.recording.run();
    assert.equal(rig.dispatched().length, 2);
  });

  it("keeps its scratch from others, shares it between its calls, and gives it back", () => {
    const rig = new Rig();
    const { recording, pool } = rig;
    const plan = (place: number, sizes: readonly number[]) =>
      recording.plan(place, () =>
        recording.recorder.run("sort", (context) => {
          for (const bytes of sizes) {
            const data = context.scratch(bytes);
            context.dispatch(small, { source: rig.a, data }, { n: 1 }, 1);
          }
        }),
      );
    plan(0, [1024, 4096]);
    plan(1, [4096, 1024]);
    assert.equal(pool.reservedBytes, 5120);
    assert.equal(pool.statistics.pooledBytes, 0);
    plan(1, [2048]);
    assert.equal(pool.reservedBytes, 5120);
    recording.run();
    const other = pool.acquire(4096, false);
    assert.equal(pool.reservedBytes, 5120 + 4096);
    pool.release(other);
    recording.dispose();
    assert.equal(pool.statistics.pooledBytes, 5120 + 4096);
  });

  it("plans parts again whose scratch was refused, and gives that back", () => {
    const rig = new Rig();
    const { recording, pool } = rig;
    const taken: DeviceMemory[] = [];
    const plan = (place: number, enqueue: () => void) => recording.plan(place, enqueue);
    const withScratch = (bytes: number) => () =>
      recording.recorder.run("sort", (context) => {
        const data = context.scratch(bytes);
        taken.push(data.memory);
        context.dispatch(small, { source: rig.a, data }, { n: bytes }, bytes);
      });
    plan(0, withScratch(4096));
    rig.plan(1, [7]);
    plan(2, withScratch(2048));
    plan(3, withScratch(4096));
    assert.lengthOf(new Set(taken), 1);
    taken[0]!.isRefused = true;
    recording.planRefused(plan);
    assert.lengthOf(taken, 6);
    const [fresh] = taken.slice(3);
    assert.notStrictEqual(fresh, taken[0]);
    assert.lengthOf(new Set(taken.slice(3)), 1);
    recording.run();
    assert.deepEqual(rig.dispatched(), [4096, 7, 2048, 4096]);
    assert.equal(fresh!.batch, rig.queue.batch);
    rig.queue.flush();
    assert.equal(pool.reservedBytes, 4096);
    recording.planRefused(plan);
    assert.lengthOf(taken, 6, "once there is memory, nothing is planned again");
    // An operand that was refused is the caller's.
    rig.b.memory.isRefused = true;
    recording.planRefused(plan);
    assert.lengthOf(taken, 6);
  });

  it("stays as it was if a part cannot be planned", () => {
    const rig = new Rig();
    rig.plan(0, [1]);
    assert.throws(() =>
      rig.recording.plan(0, () => {
        rig.recording.recorder.dispatch(small, { source: rig.a, data: rig.b }, { n: 2 }, 2);
        throw new Error("no");
      }),
    );
    rig.recording.run();
    assert.deepEqual(rig.dispatched(), [1]);
  });
});
