import { assert } from "chai";
import { defaultLimits } from "#src/device/tiers.js";
import { IMMEDIATE_FEATURE, input, output, program } from "#src/program/program.js";
import type { OperationContext } from "#src/runtime/context.js";
import { immediateBytes } from "#src/runtime/immediates.js";
import { MemoryPool } from "#src/runtime/memory.js";
import { PipelineCache } from "#src/runtime/pipelines.js";
import type { BatchLimits } from "#src/runtime/policy.js";
import { CommandQueue } from "#src/runtime/queue.js";
import type { DispatchObserver } from "#src/runtime/queue-options.js";
import { Recorder } from "#src/runtime/recorder.js";
import { windowBytes } from "#src/runtime/windows.js";
import { FakeDevice, fakeMemory } from "./fake-device.js";

const features = {
  ...{ shaderF16: false, subgroups: false, subgroupMinSize: 0, subgroupMaxSize: 0, subgroupMatrices: [] },
  limits: defaultLimits,
};

/** Two parameters and two offsets: fits into immediates. */
const small = program({
  name: "small",
  bindings: { source: input("f32"), data: output("f32") },
  parameters: { n: "u32", scale: "f32" },
  body: "small body",
});

/** Immediates hold no tables. */
const table = program({
  name: "table",
  bindings: { source: input("f32"), data: output("f32") },
  parameters: { rows: { rows: 1 } },
  body: "table body",
});

/** The command stream on a device that computes nothing. */
class Stream {
  readonly fake = new FakeDevice();
  readonly queue: CommandQueue;
  readonly recorder: Recorder;
  now = 0;
  /** The operations of each submit. */
  readonly submitted: (readonly string[])[] = [];
  readonly a = this.region(1);
  readonly b = this.region(2);
  readonly c = this.region(3);

  constructor(immediates = 64, limits?: BatchLimits) {
    const { device } = this.fake;
    this.queue = new CommandQueue(device, {
      onFlush: () => pool.afterSubmit(),
      now: () => this.now,
      together: (calls, operations) => {
        this.submitted.push(operations);
        calls();
      },
      ...(limits === undefined ? {} : { limits }),
    });
    const pipelines = new PipelineCache(device, {
      parameterBuffer: this.queue.parameterBuffer,
      immediateBytes: immediates,
      packsExactly: false,
      windowBytes: windowBytes(features),
    });
    const pool = new MemoryPool({
      device,
      ...{ maxBytes: 2 ** 30, poolBytes: 2 ** 20 },
      currentBatch: () => this.queue.batch,
      onDestroy: (memory) => pipelines.forget(memory),
      currentOperation: () => "",
      onOutOfMemory: () => assert.fail("out of memory"),
    });
    this.recorder = new Recorder(features, this.queue, pool, pipelines);
    this.fake.taken();
  }

  region(id: number, capacity = 64) {
    return { memory: fakeMemory(capacity, id), byteOffset: 0, byteLength: capacity };
  }

  small(n: number, source = this.a, data = this.b): void {
    this.recorder.dispatch(small, { source, data }, { n, scale: 1 }, 1);
  }

  table(first: number): void {
    this.recorder.dispatch(table, { source: this.a, data: this.b }, { rows: [first, 0, 0, 0] }, 1);
  }
}

const one = 0x3f800000; // 1 in f32

describe("webgpu command stream", () => {
  it("keeps one pass open, and sets only what changes", () => {
    const { fake, recorder, a, b, c } = new Stream();
    const run = (n: number, data = b) =>
      recorder.dispatch(small, { source: a, data }, { n, scale: 1 }, [1, 2, 3]);
    run(5);
    fake.taken("module", "pipeline", "group");
    run(5);
    run(6);
    assert.deepEqual(fake.taken(), [
      ["dispatch", 1, 2, 3],
      ["setImmediates", 0, 0, 6, one],
      ["dispatch", 1, 2, 3],
    ]);
    run(6, c);
    const [group, set, dispatch] = fake.taken();
    assert.equal(group![0], "group");
    assert.deepEqual(set, ["setBindGroup", 0, group![1]]);
    assert.deepEqual(dispatch, ["dispatch", 1, 2, 3]);
  });

  it("sets immediates anew in each pass, and all that a program has", () => {
    const stream = new Stream();
    const { fake } = stream;
    stream.small(5);
    stream.queue
      .encoder("copyDtoD")
      .copyBufferToBuffer(stream.a.memory.buffer, 0, stream.b.memory.buffer, 0, 4);
    stream.small(5);
    assert.deepEqual(fake.taken("setImmediates", "copy", "beginPass", "endPass", "dispatch"), [
      ["beginPass"],
      ["setImmediates", 0, 0, 5, one],
      ["dispatch", 1, 1, 1],
      ["endPass"],
      ["copy"],
      ["beginPass"],
      ["setImmediates", 0, 0, 5, one],
      ["dispatch", 1, 1, 1],
    ]);
  });

  it("puts tables, and everything where there are no immediates, in a ring with dynamic offsets", () => {
    for (const immediates of [0, 64]) {
      const stream = new Stream(immediates);
      const { fake, queue } = stream;
      stream.small(5);
      stream.table(7);
      stream.table(7);
      stream.table(8);
      queue.flush();
      const calls = fake.taken("setBindGroup", "setImmediates", "dispatch", "upload", "submit");
      const offsets = calls
        .filter((call) => call[0] === "setBindGroup" && call.length === 4)
        .flatMap((call) => call[3] as number[]);
      const uploaded = calls.find(([name]) => name === "upload")!.slice(1) as number[];
      // Blocks begin at multiples of 256 bytes; in that of a table, the row follows two offsets and padding.
      const rows = offsets.slice(-2).map((offset) => uploaded[offset / 4 + 4]);
      assert.deepEqual(rows, [7, 8]);
      if (immediates > 0) assert.deepEqual(offsets, [0, 256]);
      else {
        assert.deepEqual(offsets, [0, 256, 512]);
        assert.deepEqual(uploaded.slice(0, 4), [0, 0, 5, one]);
      }
      const [upload, submit] = calls.slice(-2);
      assert.deepEqual([upload![0], submit![0]], ["upload", "submit"]);
      // Room for the blocks of one batch, whatever they hold.
      assert.isAtLeast(queue.reservedBytes, 64 * 1024);
    }
  });

  it("uploads only what differs from the batches before", () => {
    const stream = new Stream(0);
    const { fake, queue } = stream;
    const uploads = (...numbers: readonly number[]): number => {
      for (const n of numbers) stream.small(n);
      queue.flush();
      return fake.taken("upload").length;
    };
    assert.equal(uploads(1, 2), 1);
    assert.equal(uploads(1, 2), 0, "the same again");
    assert.equal(uploads(1), 0, "the first of them");
    assert.equal(uploads(1, 2, 3), 1, "one more");
    assert.equal(uploads(1, 5), 1, "another one");
    assert.equal(uploads(1, 2, 3), 1, "the one that the other replaced");
    assert.equal(uploads(1, 2, 3), 0);
    assert.equal(uploads(), 0);
    queue.distrustParameters();
    assert.equal(uploads(1, 2), 1, "what the device may not have");
    assert.equal(uploads(1, 2), 0);
    assert.equal(uploads(1, 2, 3), 1, "the rest of that");
  });

  it("uploads nothing for a batch without blocks", () => {
    const stream = new Stream(0);
    stream.small(1);
    stream.queue.flush();
    stream.fake.taken();
    stream.queue.encoder("copyDtoH");
    stream.queue.flush();
    assert.deepEqual(stream.fake.taken(), [["submit"]]);
    stream.small(2);
    stream.queue.flush();
    assert.lengthOf(stream.fake.taken("upload"), 1);
  });

  it("submits by dispatches, by work and by time", () => {
    const limits = { dispatches: 4, replayed: 4, work: 20, shown: 0, recording: 10 };
    const submits = (count: number, each: (stream: Stream) => void): number => {
      const stream = new Stream(64, limits);
      for (let i = 0; i < count; i++) each(stream);
      return stream.fake.count("submit");
    };
    assert.equal(
      submits(9, (stream) => stream.small(1)),
      2,
    );
    // 128 MiB at the 16 GB/s of the estimate: 8.4 milliseconds each.
    assert.equal(
      submits(6, (stream) => stream.small(1, stream.a, stream.region(9, 2 ** 27))),
      2,
    );
    assert.equal(
      submits(5, (stream) => {
        stream.now += 5;
        stream.small(1);
      }),
      2,
    );
  });

  it("puts more work into a submit once it has been told how soon some was done", () => {
    const stream = new Stream(64, { dispatches: 64, replayed: 64, work: 20, shown: 12, recording: 1000 });
    const submits = (): number => {
      for (let i = 0; i < 6; i++) stream.small(1, stream.a, stream.region(9, 2 ** 27));
      const submitted = stream.queue.flush();
      stream.now += 10;
      stream.queue.finished(submitted);
      return stream.fake.taken("submit").length;
    };
    assert.equal(submits(), 3); // two are 17 milliseconds' work
    assert.equal(submits(), 1); // six in 10 milliseconds
  });

  it("counts the flops of an operation for each of its dispatches", () => {
    const stream = new Stream(64, { dispatches: 64, replayed: 64, work: 100, shown: 0, recording: 10 });
    const { fake, recorder } = stream;
    const enqueue = (_: OperationContext) => {
      stream.small(1);
      stream.small(2);
    };
    recorder.run("light", enqueue, 1e6);
    assert.lengthOf(fake.taken("submit"), 0);
    recorder.run("heavy", enqueue, 1e12);
    // What was there before, and then either dispatch.
    assert.lengthOf(fake.taken("submit"), 3);
    recorder.run("light", enqueue, 1e6);
    assert.lengthOf(fake.taken("submit"), 0);
  });

  it("counts no flops for programs that only move bytes", () => {
    const stream = new Stream(64, { dispatches: 64, replayed: 64, work: 100, shown: 0, recording: 10 });
    const { fake, recorder, a: source, b: data } = stream;
    const light = program({
      ...{ name: "light", bindings: { source: input("f32"), data: output("f32") } },
      ...{ parameters: {}, light: true, body: "light body" },
    });
    recorder.run(
      "heavy",
      () => {
        for (let i = 0; i < 3; i++) recorder.dispatch(light, { source, data }, {}, 1);
        assert.lengthOf(fake.taken("submit"), 0);
        stream.small(1);
      },
      1e12,
    );
    assert.lengthOf(fake.taken("submit"), 2);
  });

  it("starts work when the caller's code ends, without being asked", async () => {
    const stream = new Stream();
    stream.small(1);
    assert.equal(stream.fake.count("submit"), 0);
    await undefined;
    assert.equal(stream.fake.count("submit"), 1);
  });

  it("gives every dispatch a pass of its own while someone observes", () => {
    const stream = new Stream();
    const { fake, queue, recorder } = stream;
    const seen: string[] = [];
    const querySet = {} as GPUQuerySet;
    const observer: DispatchObserver = {
      timestampWrites(operation, { name }) {
        seen.push(`${operation} ${name}`);
        return { querySet, beginningOfPassWriteIndex: seen.length };
      },
      beforeSubmit: (encoder) => encoder.resolveQuerySet(querySet, 0, 1, stream.a.memory.buffer, 0),
      afterSubmit: () => seen.push("submitted"),
    };
    queue.observe(observer);
    recorder.run("first", () => stream.small(1));
    recorder.run("second", () => {
      stream.small(1);
      stream.table(1);
    });
    queue.flush();
    assert.deepEqual(seen, ["first small", "second small", "second table", "submitted"]);
    const calls = fake.taken("beginPass", "endPass", "setImmediates", "dispatch", "resolve", "submit");
    const pass = ["beginPass", "setImmediates", "dispatch", "endPass"];
    assert.deepEqual(
      calls.map(([name]) => name),
      [...pass, ...pass, "beginPass", "dispatch", "endPass", "resolve", "submit"],
    );
    const descriptors = calls.filter(([name]) => name === "beginPass").map((call) => call[1]);
    assert.deepEqual(descriptors[1], {
      label: "small",
      timestampWrites: { querySet, beginningOfPassWriteIndex: 2 },
    });
    queue.observe(undefined);
    stream.small(1);
    stream.small(2);
    queue.flush();
    assert.deepEqual(
      fake.taken("beginPass", "endPass", "resolve").map(([name]) => name),
      ["beginPass", "endPass"],
    );
  });

  it("names the operation of nested commands by the innermost, and gives scratch back at the ends", () => {
    const stream = new Stream();
    const seen: string[] = [];
    stream.queue.observe({
      timestampWrites(operation) {
        seen.push(operation);
        return undefined;
      },
      beforeSubmit() {},
      afterSubmit() {},
    });
    stream.recorder.run("outer", () => {
      const kept = stream.recorder.scratch(16);
      stream.recorder.run("inner", () => stream.small(1));
      assert.notStrictEqual(stream.recorder.scratch(16).memory, kept.memory);
      stream.small(1);
    });
    assert.throws(() =>
      stream.recorder.run("failing", () => {
        throw new Error("in a kernel");
      }),
    );
    stream.small(1);
    assert.deepEqual(seen, ["inner", "outer", "webgpu"]);
  });

  it("says of each submit which operations have commands in it", () => {
    const stream = new Stream();
    const { queue, recorder, submitted } = stream;
    const run = (operation: string) => recorder.run(operation, () => stream.small(1));
    run("fill");
    run("gemm");
    run("fill");
    recorder.run("nothing", () => {});
    queue.encoder("copyDtoH");
    assert.deepEqual(queue.operations, ["fill", "gemm", "copyDtoH"]);
    queue.flush();
    run("unary");
    queue.flush();
    queue.flush();
    assert.deepEqual(submitted, [["fill", "gemm", "copyDtoH"], ["unary"]]);
  });

  it("takes immediates where language and device have them, unless they are switched off", () => {
    const gpu = (...names: string[]) => ({ wgslLanguageFeatures: new Set(names) }) as unknown as GPU;
    const device = (maxImmediateSize?: number) => ({ limits: { maxImmediateSize } }) as unknown as GPUDevice;
    assert.equal(immediateBytes(device(64), gpu(IMMEDIATE_FEATURE), []), 64);
    assert.equal(immediateBytes(device(128), gpu(IMMEDIATE_FEATURE), ["subgroups"]), 64);
    assert.equal(immediateBytes(device(64), gpu(IMMEDIATE_FEATURE), [IMMEDIATE_FEATURE]), 0);
    assert.equal(immediateBytes(device(64), gpu("subgroup_id"), []), 0);
    assert.equal(immediateBytes(device(), gpu(IMMEDIATE_FEATURE), []), 0);
    assert.equal(immediateBytes(device(32), gpu(IMMEDIATE_FEATURE), []), 0);
    assert.equal(immediateBytes(device(64), undefined, []), 0);
    assert.equal(immediateBytes(device(64), {} as GPU, []), 0);
  });
});
