import { assert } from "chai";
import { input, output, program } from "#src/program/program.js";
import type { BufferRegion } from "#src/runtime/context.js";
import { FakeSession } from "./fake-session.js";

const named = (name: string) =>
  program({
    name,
    bindings: { source: input("f32"), data: output("f32") },
    parameters: { n: "u32" },
    body: `${name} body`,
  });
const [first, second] = [named("first"), named("second")];

/** Lets everything happen that is due. */
const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

/** The device compiles when it is told to. */
class Rig extends FakeSession {
  readonly others: { readonly source: BufferRegion; readonly data: BufferRegion };
  readonly memories: { readonly source: BufferRegion; readonly data: BufferRegion };
  readonly #compilations = new Map<string, { readonly done: () => void; readonly refuse: () => void }>();

  constructor() {
    super({ poolBytes: 0, holds: true });
    this.fake.device.createComputePipelineAsync = ({ label, compute }) =>
      new Promise((resolve, reject) => {
        const name = (compute.module as unknown as { code: string }).code.includes("first body")
          ? "first"
          : "second";
        const pipeline = { label } as GPUComputePipeline;
        this.#compilations.set(name, {
          done: () => resolve(pipeline),
          refuse: () => reject(new Error("no")),
        });
      });
    this.others = { source: this.#region(), data: this.#region() };
    this.memories = { source: this.#region(), data: this.#region() };
    this.fake.taken();
  }

  run(kernel: typeof first, n: number, { source, data } = this.memories): void {
    this.recorder.run(kernel.name, (context) => context.dispatch(kernel, { source, data }, { n }, n));
  }

  #region(): BufferRegion {
    return { memory: this.pool.acquire(64, false), byteOffset: 0, byteLength: 64 };
  }

  finish(...names: readonly string[]): Promise<void> {
    for (const name of names) this.#compilations.get(name)!.done();
    return settle();
  }

  refuse(name: string): Promise<void> {
    this.#compilations.get(name)!.refuse();
    return settle();
  }

  /** Workgroups tell dispatches apart. */
  taken(): string[] {
    return this.fake
      .taken("dispatch", "submit", "write", "destroy")
      .map(([name, x]) => (name === "dispatch" ? `dispatch ${x}` : name));
  }
}

describe("webgpu commands that wait for their pipelines", () => {
  it("are submitted in order, each when its pipeline and those before it are there", async () => {
    const rig = new Rig();
    rig.run(first, 1);
    rig.run(second, 2);
    rig.queue.holdWrite(4, () => rig.fake.calls.push(["write"]));
    rig.run(first, 3);
    assert.isTrue(rig.queue.isHolding);
    await settle();
    assert.equal(rig.queue.flush(), rig.queue.flush());
    assert.deepEqual(rig.taken(), []);
    const { batch } = rig.queue;
    await rig.finish("first");
    assert.deepEqual(rig.taken(), ["dispatch 1", "submit"]);
    assert.deepEqual([rig.queue.isHolding, rig.queue.batch], [true, batch]);
    const released = rig.queue.released();
    await rig.finish("second");
    await released;
    assert.deepEqual(rig.taken(), ["dispatch 2", "submit", "write", "dispatch 3", "submit"]);
    assert.isAbove(rig.queue.batch, batch);
    assert.deepEqual([rig.atOnce, rig.releases], [[], 1]);
    rig.run(second, 4);
    rig.queue.flush();
    assert.deepEqual(rig.taken(), ["dispatch 4", "submit"]);
  });

  it("follow what was recorded before them, which is submitted", async () => {
    const rig = new Rig();
    rig.run(first, 1);
    await rig.finish("first");
    rig.taken();
    rig.run(first, 2);
    rig.run(second, 3);
    assert.deepEqual(rig.taken(), ["dispatch 2", "submit"]);
    rig.run(first, 4);
    await rig.finish("second");
    assert.deepEqual(rig.taken(), ["dispatch 3", "dispatch 4", "submit"]);
  });

  it("of a recording wait, too, with the parameters that they were prepared with", async () => {
    const rig = new Rig();
    const { source, data } = rig.memories;
    rig.recording.plan(0, () => {
      for (const n of [1, 2]) rig.recording.recorder.dispatch(first, { source, data }, { n }, n);
    });
    rig.recording.run();
    rig.recording.run();
    assert.deepEqual(rig.taken(), []);
    await rig.finish("first");
    assert.deepEqual(
      rig.fake.taken("setImmediates", "submit").map(([name, , , n]) => n ?? name),
      [1, 2, 1, 2, "submit"],
    );
  });

  it("keep buffers until they are submitted", async () => {
    const rig = new Rig();
    const { memory } = rig.memories.data;
    rig.run(first, 1);
    rig.pool.release(memory);
    rig.queue.flush();
    assert.equal(memory.batch, rig.queue.batch);
    rig.run(second, 2, rig.others);
    assert.deepEqual(rig.taken(), []);
    await rig.finish("first");
    // Which commands use it is not known.
    assert.deepEqual(rig.taken(), ["dispatch 1", "submit"]);
    await rig.finish("second");
    assert.deepEqual(rig.taken(), ["dispatch 2", "submit", "destroy"]);
  });

  it("do not wait for what somebody needs at once, and later ones find it compiled", async () => {
    const rig = new Rig();
    rig.run(first, 1);
    rig.queue.release();
    assert.deepEqual(rig.taken(), ["dispatch 1", "submit"]);
    assert.deepEqual(rig.atOnce, ["first"]);
    rig.run(first, 2);
    assert.isFalse(rig.queue.isHolding);
    rig.queue.flush();
    await rig.finish("first");
    assert.deepEqual(rig.taken(), ["dispatch 2", "submit"]);
    rig.queue.neverHold();
    rig.run(second, 3);
    rig.queue.flush();
    assert.deepEqual(rig.taken(), ["dispatch 3", "submit"]);
  });

  it("are compiled at once while someone observes, also those that were being compiled", () => {
    const rig = new Rig();
    const { source, data } = rig.memories;
    const { recorder } = rig.recording;
    rig.recording.plan(0, () =>
      recorder.run("first", () => recorder.dispatch(first, { source, data }, { n: 1 }, 1)),
    );
    rig.queue.observe({ timestampWrites: () => undefined, beforeSubmit() {}, afterSubmit() {} });
    rig.recording.run();
    rig.run(second, 2);
    rig.queue.flush();
    assert.deepEqual(rig.taken(), ["dispatch 1", "dispatch 2", "submit"]);
    assert.deepEqual(rig.atOnce, ["first"]);
  });

  it("ask for a refused pipeline once more, for the operation that needs it", async () => {
    const rig = new Rig();
    rig.run(first, 1);
    rig.run(second, 2);
    await rig.refuse("second");
    assert.deepEqual(rig.taken(), []);
    await rig.finish("first");
    assert.deepEqual(rig.atOnce, ["second"]);
    assert.deepEqual(rig.taken(), ["dispatch 1", "dispatch 2", "submit"]);
  });

  it("do not wait for a pipeline that was refused before, and nor do those after it", async () => {
    const rig = new Rig();
    const { source, data } = rig.memories;
    rig.recording.plan(0, () => rig.recording.recorder.dispatch(second, { source, data }, { n: 2 }, 2));
    await rig.refuse("second");
    rig.recording.run();
    assert.deepEqual([rig.queue.isHolding, rig.atOnce.length], [false, 1]);
    rig.run(first, 1);
    assert.deepEqual(rig.taken(), ["dispatch 2", "submit"]);
    await rig.finish("first");
    assert.deepEqual(rig.taken(), ["dispatch 1", "submit"]);
  });

  it("are released with one in their middle whose pipeline was refused before", async () => {
    const rig = new Rig();
    const { source, data } = rig.memories;
    rig.recording.plan(0, () => rig.recording.recorder.dispatch(second, { source, data }, { n: 2 }, 2));
    await rig.refuse("second");
    rig.run(first, 1);
    rig.run(second, 2);
    rig.run(first, 3);
    assert.deepEqual(rig.taken(), []);
    await rig.finish("first");
    assert.isFalse(rig.queue.isHolding);
    assert.deepEqual(
      [rig.atOnce, rig.taken()],
      [["second"], ["dispatch 1", "dispatch 2", "dispatch 3", "submit"]],
    );
  });

  it("are not endless, in number and in bytes to be written", () => {
    const rig = new Rig();
    for (let i = 0; i < 4096; i++) rig.run(first, 1);
    assert.isFalse(rig.queue.isHolding);
    rig.run(second, 1);
    rig.queue.holdWrite(2 ** 26, () => {});
    assert.isTrue(rig.queue.isHolding);
    rig.queue.holdWrite(1, () => {});
    assert.isFalse(rig.queue.isHolding);
  });
});
