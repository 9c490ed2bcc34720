import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  BackendError,
  type ComputeBackend,
  createBackend,
  type DeviceHandle,
  ForwardingBackend,
  replayTrace,
  TraceBackend,
  type TraceSink,
} from "@backplane/core";
import { assert } from "chai";
import { ElementTypes } from "#src/wrappers/trace/element-types.js";
import { FakeDriver, type Gate, gate, openFake, rejects, settle, throws } from "./support/fake-driver.js";

/** More than the bytes that gather before the sink gets them. */
const large = 2 ** 17;

async function traced(
  sink: TraceSink,
  program: (backend: TraceBackend) => Promise<void> | void,
): Promise<void> {
  const backend = new TraceBackend(createBackend(new FakeDriver()), sink);
  await backend.init();
  await program(backend);
  await backend.dispose();
}

/** Uploads different contents, each as large as a chunk. */
function uploads(backend: ComputeBackend, count: number): void {
  const handle = backend.alloc(large);
  for (let i = 1; i <= count; i++) backend.copyHtoD(handle, new Uint8Array(large).fill(i));
}

async function callsOf(source: Parameters<typeof replayTrace>[0]): Promise<number> {
  const { backend } = await openFake();
  const { calls } = await replayTrace(source, backend);
  await backend.dispose();
  return calls;
}

describe("The sink of a TraceBackend", () => {
  it("may return anything: writeSync gives a number, the write of a stream a boolean", async () => {
    const folder = mkdtempSync(join(tmpdir(), "backplane-trace-"));
    try {
      const path = join(folder, "run.trace");
      const file = openSync(path, "w");
      await traced(
        (chunk) => writeSync(file, chunk),
        (backend) => uploads(backend, 3),
      );
      closeSync(file);
      assert.equal(await callsOf(readFileSync(path)), 3);
    } finally {
      rmSync(folder, { recursive: true });
    }
    for (const result of [true, false, null, "", {}, { catch: 1 }]) {
      const chunks: Uint8Array[] = [];
      await traced(
        (chunk) => {
          chunks.push(chunk);
          return result;
        },
        (backend) => uploads(backend, 3),
      );
      assert.equal(await callsOf(chunks), 3);
    }
  });

  it("gets the next bytes when its promise has resolved, and is waited for", async () => {
    const chunks: Uint8Array[] = [];
    const gates: Gate[] = [];
    const takesAll = async (isDone: () => boolean): Promise<void> => {
      for (; !isDone(); await settle()) gates.shift()?.open();
    };
    await traced(
      (chunk) => {
        assert.isEmpty(gates, "a chunk came before the one before was taken");
        chunks.push(chunk);
        const taken = gate();
        gates.push(taken);
        // Whatever can be awaited is waited for.
        // biome-ignore lint/suspicious/noThenProperty: that is what is tested
        return { then: (resolve: () => void) => void taken.promise.then(resolve) };
      },
      async (backend) => {
        uploads(backend, 5);
        await settle();
        assert.lengthOf(chunks, 1);
        const destination = new Uint8Array(4);
        const handle = backend.alloc(4);
        for (const wait of [
          () => backend.synchronize(),
          () => backend.copyDtoH(destination, handle),
          () => backend.dispose(),
        ]) {
          uploads(backend, 2);
          let isDone = false;
          const done = wait().then(() => {
            isDone = true;
          });
          await settle();
          assert.isFalse(isDone);
          assert.lengthOf(gates, 1);
          await takesAll(() => isDone);
          await done;
          assert.isEmpty(gates);
        }
      },
    );
    assert.equal(await callsOf(chunks), 11);
  });

  it("gets bytes at once while it has promised nothing", async () => {
    const chunks: Uint8Array[] = [];
    await traced(
      (chunk) => chunks.push(chunk),
      (backend) => {
        uploads(backend, 3);
        assert.lengthOf(chunks, 3);
      },
    );
  });

  it("gets no more once it has failed", async () => {
    let chunks = 0;
    const taken = gate();
    await traced(
      () => {
        chunks++;
        return taken.promise;
      },
      async (backend) => {
        uploads(backend, 5);
        taken.fail(new Error("the disk is full"));
        const error = await rejects("DEVICE_ERROR", backend.synchronize());
        assert.match(error.message, /the sink of the trace failed: the disk is full/);
        uploads(backend, 5);
      },
    );
    assert.equal(chunks, 1);
  });

  it("gets the end of the trace although the backend underneath does not end well", async () => {
    class Unending extends ForwardingBackend {
      override async dispose(): Promise<void> {
        await super.dispose();
        throw new Error("it is still there");
      }
    }
    const chunks: Uint8Array[] = [];
    const backend = new TraceBackend(new Unending(createBackend(new FakeDriver())), (chunk) =>
      chunks.push(chunk),
    );
    await backend.init();
    backend.fill(backend.alloc(8), 1, 2);
    const ended = await backend.dispose().catch((error: Error) => error.message);
    assert.equal(ended, "it is still there");
    assert.equal(await callsOf(chunks), 1);
  });
});

describe("ElementTypes", () => {
  it("are those of the latest call at each byte", () => {
    const dtypes = ["f32", "f16", "i32", "u8"] as const;
    let seed = 1;
    const random = (below: number): number => {
      seed = (seed * 48271) % 2147483647;
      return seed % below;
    };
    const size = 64;
    const types = new ElementTypes();
    const bytes = new Array<string>(size).fill("u8");
    for (let i = 0; i < 500; i++) {
      const start = random(size);
      const end = start + random(size - start + 1);
      const dtype = dtypes[random(dtypes.length)]!;
      types.note({ start, end, dtype });
      bytes.fill(dtype, start, end);
      const [from, to] = [random(size), random(size + 1)];
      const found = types.within(from, to);
      assert.deepEqual(
        found.flatMap((run) => new Array<string>(run.end - run.start).fill(run.dtype)),
        bytes.slice(from, to),
      );
      let at = from;
      for (const run of found) {
        assert.equal(run.start, at);
        at = run.end;
      }
    }
  });

  it("join where they are the same, and may be many", () => {
    const same = new ElementTypes();
    const mixed = new ElementTypes();
    const count = 12_000;
    for (let i = count - 1; i >= 0; i--) {
      const run = { start: 4 * i, end: 4 * i + 4 };
      same.note({ ...run, dtype: "f32" });
      mixed.note({ ...run, dtype: i % 2 === 0 ? "f32" : "i32" });
    }
    assert.deepEqual(same.within(0, 4 * count), [{ start: 0, end: 4 * count, dtype: "f32" }]);
    assert.lengthOf(mixed.within(0, 4 * count), count);
  });
});

/** Writes traces that no TraceBackend would. */
const written = {
  count(value: number): number[] {
    const bytes: number[] = [];
    let rest = value;
    for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80);
    return [...bytes, rest];
  },
  text: (text: string): number[] => [8, ...written.count(text.length), ...Buffer.from(text)],
  whole: (value: number): number[] => [4, ...written.count(value)],
  list: (...values: number[][]): number[] => [10, ...written.count(values.length), ...values.flat()],
  slice: (allocation: number, byteOffset: number): number[] => [
    ...[13, ...written.count(allocation), ...written.count(byteOffset)],
  ],
  bytes: (...bytes: number[]): number[] => [14, ...written.count(bytes.length), ...bytes],
  trace(...records: number[][]): Uint8Array {
    const framed = records.flatMap((record) => [...written.count(record.length), ...record]);
    return Uint8Array.from([...Buffer.from("BPTRACE"), 1, ...framed]);
  },
};

describe("replayTrace", () => {
  const { text, whole, list, slice, bytes, trace, count } = written;
  const no = [2];
  const alloc = list(text("alloc"), whole(8), no);

  async function damage(source: Uint8Array): Promise<string> {
    const { backend } = await openFake();
    const { message } = await rejects("INVALID_ARGUMENT", replayTrace(source, backend), "source");
    assert.equal(backend.memory().liveAllocations, 0);
    return message;
  }

  it("copies a record that comes in many pieces a fixed number of times", async () => {
    const length = 2 ** 21;
    const chunks: Uint8Array[] = [];
    await traced(
      (chunk) => chunks.push(chunk),
      (backend) => backend.copyHtoD(backend.alloc(length), new Uint8Array(length)),
    );
    const whole = Buffer.concat(chunks);
    const pieceBytes = 2 ** 13;
    const pieces = Array.from({ length: Math.ceil(whole.length / pieceBytes) }, (_, i) =>
      whole.subarray(i * pieceBytes, (i + 1) * pieceBytes),
    );
    const { set } = Uint8Array.prototype;
    let copied = 0;
    Uint8Array.prototype.set = function (this: Uint8Array, source, at): void {
      copied += source.length;
      set.call(this, source, at);
    };
    try {
      assert.equal(await callsOf(pieces), 1);
    } finally {
      Uint8Array.prototype.set = set;
    }
    assert.isBelow(copied, 4 * length);
  });

  it("takes pieces whose memory the source uses again", async () => {
    const chunks: Uint8Array[] = [];
    await traced(
      (chunk) => chunks.push(chunk),
      (backend) => uploads(backend, 2),
    );
    const whole = Buffer.concat(chunks);
    function* reused(): Generator<Uint8Array> {
      const piece = new Uint8Array(1000);
      for (let at = 0; at < whole.length; at += piece.length) {
        const length = Math.min(piece.length, whole.length - at);
        piece.set(whole.subarray(at, at + length));
        yield piece.subarray(0, length);
        piece.fill(0xff);
      }
    }
    assert.equal(await callsOf(reused()), 2);
  });

  it("refuses lists in each other, however many, and numbers without end", async () => {
    const depth = 20_000;
    const nested = new Array<number[]>(depth).fill([10, 1]).flat();
    assert.match(await damage(trace([...nested, 0])), /is damaged at byte \d+: more than 64 lists/);
    const objects = new Array<number[]>(depth).fill([11, 1, ...text("a")]).flat();
    assert.match(await damage(trace([...objects, 0])), /is damaged at byte \d+: more than 64 lists/);
    const digits = list(text("run"), [7, ...text("9".repeat(41))]);
    assert.match(await damage(trace(digits)), /more than 40 digits/);
  });

  it("refuses records that have other values in them than they should", async () => {
    const call = list(text("copyDtoD"), slice(0, 0), slice(0, 4), whole(4));
    const record = list(text("record"), list(list([3], list(call)), list(no, list(call))));
    const play = (part: number[], ...calls: number[][]): number[] =>
      list(text("play"), whole(0), list(), list(list(part, list(...calls))));
    const run = list(text("run"), text("exp"), text("x"));
    for (const [reason, ...records] of [
      [/a record of alloc has/, list(text("alloc"), [5, 8], no)],
      [/a record of alloc has/, list(text("alloc"), [6, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f], no)],
      [/a record of fill has/, alloc, list(text("fill"), slice(0, 0), whole(1), whole(1), text("f33"))],
      [/a record of record has/, alloc, list(text("record"), list(whole(5)))],
      [/a record of record has/, alloc, list(text("record"), list(list([3], list(run))))],
      [/a record of record has/, alloc, list(text("record"), list(list([3], list(list(text("end"))))))],
      [/a record of play has/, alloc, record, list(text("play"), whole(0), list(whole(1)), list())],
      [/a record of play has/, alloc, record, play([5, 1], call)],
      [/a record of play has/, alloc, record, play(whole(0), whole(7))],
      [/there is no part that varies 1$/, alloc, record, play(whole(1), call)],
      [/there is no part that varies 2$/, alloc, record, play(whole(2), call)],
      [/there is no content 0/, alloc, list(text("copyHtoD"), slice(0, 0), whole(0))],
      [/there is no read 0/, list(text("read"), whole(0), [0], [0])],
    ] as const)
      assert.match((await damage(trace(...records))).split(";")[0]!, reason);
    // The same records are fine with the right values.
    assert.equal(await callsOf(trace(alloc, record, play(whole(0), call, call), list(text("end")))), 3);
  });

  it("takes no memory for a read beyond the end of its allocation", async () => {
    const read = list(text("copyDtoH"), slice(0, 4), [4, ...count(5)], no);
    const huge = list(text("copyDtoH"), slice(0, 0), [4, ...count(2 ** 52)], no);
    const content = list(text("content"), bytes(1, 2, 3, 4, 5));
    for (const one of [read, huge])
      assert.match(
        await damage(trace(alloc, one, content, list(text("read"), whole(0), whole(0), [0]))),
        /is damaged: a read is beyond the end of its allocation/,
      );
    // It was refused when the trace was made.
    const refused = list(text("read"), whole(0), [0], text("INVALID_ARGUMENT"));
    assert.equal(await callsOf(trace(alloc, huge, refused, list(text("end")))), 0);
  });

  it("closes the source, however it ends", async () => {
    const whole = trace(alloc, list(text("end")), alloc);
    let closed = 0;
    async function* source(): AsyncGenerator<Uint8Array> {
      try {
        yield whole;
        yield whole;
      } finally {
        closed++;
      }
    }
    const { backend, driver } = await openFake();
    await rejects("INVALID_ARGUMENT", replayTrace(source(), backend), "source");
    assert.equal(closed, 1);
    driver.allocating = () => {
      throw new BackendError("OUT_OF_MEMORY", "there is none");
    };
    await rejects("OUT_OF_MEMORY", replayTrace(source(), backend));
    assert.equal(closed, 2);
    await backend.dispose();
  });
});

describe("Arguments that a trace cannot hold", () => {
  it("and parts of a recording that are no functions are refused as on the backend underneath", async () => {
    const { backend } = await openFake();
    const traced = new TraceBackend(backend, () => {});
    const record = (part: unknown) => traced.record((vary: (part: never) => void) => vary(part as never), {});
    for (const part of [undefined, null, 7, {}]) throws("INVALID_ARGUMENT", () => record(part), "part");
    record(() => {}).run();
    await traced.dispose();
  });

  it("are left out, and said to be", async () => {
    const round: unknown[] = [];
    round.push(round);
    for (const [seed, reason] of [
      [round, /more than 64 lists and objects in each other/],
      [10n ** 41n, /bigint of more than 40 digits/],
    ] as const) {
      const chunks: Uint8Array[] = [];
      class Any extends ForwardingBackend {
        override run(): void {}
      }
      const backend = new TraceBackend(new Any(createBackend(new FakeDriver())), (chunk) =>
        chunks.push(chunk),
      );
      await backend.init();
      const output = backend.alloc(8) as DeviceHandle;
      backend.run("random", { kind: "bits", count: 2, seed, output } as object);
      await backend.dispose();
      const { backend: other } = await openFake();
      const { omitted } = await replayTrace(chunks, other);
      assert.lengthOf(omitted, 1);
      assert.match(omitted[0]!.reason, reason);
    }
  });
});
