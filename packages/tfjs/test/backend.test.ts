import assert from "node:assert/strict";
import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import type { BackendProvider, ComputeBackend } from "@backplane/core";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { name, registered, squared } from "./registered.js";

describe("register", () => {
  let registration: Registration;
  registered((made) => {
    registration = made;
  });
  const live = () => registration.compute.memory().liveAllocations;

  it("makes the backend the one in use, on the first provider that can be opened", () => {
    assert.equal(tf.getBackend(), name);
    assert.equal(registration.name, name);
    assert.equal(registration.current, "cpu");
    assert.equal(registration.capabilities.synchronousReads, true);
  });

  it("refuses a name with an underscore, and one that is registered", async () => {
    await assert.rejects(register(tf, [cpu()], { name: "a_b" }), /name is "a_b"; allowed: .*no underscore/);
    await assert.rejects(register(tf, [cpu()], { name }), /a backend named registered is registered already/);
  });

  it("refuses unknown options", async () => {
    const options = { hostElement: 0 } as object;
    await assert.rejects(register(tf, [cpu()], options), {
      code: "INVALID_ARGUMENT",
      message:
        "register: hostElement is unknown (is hostElements meant?); allowed: name, use, hostElements, fusion",
    });
    await assert.rejects(
      register(tf, [cpu()], null as never),
      /register: options is null; allowed: an object/,
    );
  });

  it("rejects if no provider can be opened", async () => {
    const reason = "there is none";
    const missing = {
      name: "missing",
      probe: async () => ({ available: false as const, reason }),
      create: () => {
        throw new Error(reason);
      },
    };
    await assert.rejects(register(tf, [missing], { name: "none" }), { code: "UNSUPPORTED" });
    assert.equal(tf.findBackend("none"), null);
  });

  it("moves tensors to another backend, which says what to await", async () => {
    const x = tf.tensor1d([1, 2, 3]);
    const y = squared(x);
    const report = await registration.use("webgpu");
    assert.equal(registration.current, "webgpu");
    assert.deepEqual(
      { from: report.from, to: report.to, lost: report.lost.length },
      { from: "cpu", to: "webgpu", lost: 0 },
    );
    const z = tf.add(y, x);
    assert.throws(
      () => z.dataSync(),
      /on the device of webgpu.*use await tensor\.data\(\) in place of dataSync\(\)/,
    );
    assert.throws(() => tf.unique(z), /Unique works on the host.*await tensor\.data\(\)/);
    assert.deepEqual([...(await z.data())], [2, 6, 12]);
    // What was read is kept.
    assert.deepEqual([...z.dataSync()], [2, 6, 12]);
    const { values } = tf.unique(z);
    assert.deepEqual([...(await values.data())], [2, 6, 12]);
    await registration.use("cpu");
    const sum = tf.sum(z);
    assert.deepEqual([...sum.dataSync()], [20]);
    tf.dispose([x, y, z, values, sum]);
  });

  it("gives other backends of TensorFlow.js the values", async () => {
    const x = squared(tf.tensor1d([1, 2, 3]));
    await tf.setBackend("cpu");
    const y = tf.add(x, 1);
    await tf.setBackend(name);
    const z = tf.add(y, 1);
    assert.deepEqual([...z.dataSync()], [3, 6, 11]);
    tf.dispose([x, y, z]);
  });

  it("shows nothing of its data in a tensor, nor of those of other tensors", () => {
    const [x, y] = [tf.tensor1d([1, 2, 3]), tf.tensor1d([4, 5])];
    assert.deepEqual(JSON.parse(JSON.stringify(y)).dataId, {});
    assert.deepEqual(structuredClone(y.dataId), {});
    tf.dispose([x, y]);
  });

  it("says what is true of its memory", () => {
    const x = squared(tf.tensor1d([1, 2, 3]));
    const memory = tf.memory() as tf.MemoryInfo & { numBytesOnDevice: number };
    assert.equal(memory.unreliable, false);
    assert.equal(memory.numBytesOnDevice, registration.compute.memory().liveBytes);
    x.dispose();
  });

  it("restores what the host has after the loss of a device", async () => {
    await registration.use("webgpu");
    const known = tf.tensor1d([1, 2, 3]);
    const read = squared(known);
    await read.data();
    const unread = tf.reverse(read, 0);
    const [readPart, unreadPart] = [tf.slice(read, 0, 2), tf.slice(read, 0, 2)];
    await readPart.data();
    const device = registration.compute.inner.native() as { destroy(): void };
    const lost = new Promise<void>((resolve) => {
      registration.compute.onLost(() => resolve());
    });
    device.destroy();
    await lost;
    assert.throws(() => squared(read), { code: "DEVICE_LOST" });
    const unhandled: unknown[] = [];
    const note = (error: unknown) => void unhandled.push(error);
    process.on("unhandledRejection", note);
    await assert.rejects(
      tf.time(() => {}),
      { code: "DEVICE_LOST" },
    );
    const failing = tf.time(() => {
      throw new Error("mine");
    });
    await assert.rejects(failing, /mine/);
    // Node.js tells of them before the next turn.
    await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", note);
    assert.deepEqual(unhandled, []);
    const report = await registration.use("cpu");
    // That of `unread`, and that of which only a part has not been read.
    assert.equal(report.lost.length, 2);
    const sum = tf.add(read, known);
    assert.deepEqual([...sum.dataSync()], [2, 6, 12]);
    const partSum = tf.add(readPart, tf.slice(read, 0, 2));
    assert.deepEqual([...partSum.dataSync()], [2, 8]);
    assert.throws(() => unread.dataSync(), { code: "DEVICE_LOST" });
    assert.throws(() => squared(unreadPart), { code: "DEVICE_LOST" });
    assert.throws(() => squared(unread), { code: "DEVICE_LOST" });
    tf.dispose([known, read, readPart, unread, unreadPart, sum, partSum]);
  });

  it("restores a part of a tensor at the beginning of memory of its own", async () => {
    const other = await register(tf, [webgpu(), cpu()], { name: "parts", hostElements: 0 });
    const x = squared(tf.tensor1d([1, 2, 3, 4, 5, 6, 7, 8]));
    const part = tf.slice(x, [4], [4]);
    await part.data();
    const device = other.compute.inner.native() as { destroy(): void };
    const lost = new Promise<void>((resolve) => {
      other.compute.onLost(() => resolve());
    });
    device.destroy();
    await lost;
    await other.use("cpu");
    for (let i = 0; i < 2; i++)
      assert.deepEqual([...squared(part).dataSync()], [25 ** 2, 36 ** 2, 49 ** 2, 64 ** 2]);
    await tf.setBackend(name);
    await other.dispose();
  });

  it("survives many resets of the engine", async () => {
    for (let i = 0; i < 300; i++) {
      tf.engine().reset();
      await tf.setBackend(name);
      squared(tf.tensor1d([i]));
    }
    tf.engine().reset();
    assert.equal(live(), 0);
    await tf.setBackend(name);
  });

  it("closes the device if it cannot become the backend in use", async () => {
    const made: ComputeBackend[] = [];
    const watched: BackendProvider = {
      ...cpu(),
      create: () => {
        const backend = cpu().create();
        made.push(backend);
        return backend;
      },
    };
    const refusing = { ...tf, setBackend: async () => false };
    await assert.rejects(
      register(refusing, [watched], { name: "refused" }),
      /cannot make refused the backend/,
    );
    assert.equal(tf.findBackendFactory("refused"), null);
    assert.equal(tf.getKernel("Square", "refused"), undefined);

    const failing = {
      ...tf,
      registerKernel: () => {
        throw new Error("no kernels");
      },
    };
    await assert.rejects(register(failing, [watched], { name: "failing" }), /no kernels/);
    assert.equal(tf.findBackendFactory("failing"), null);
    assert.deepEqual(
      made.map(({ state }) => state),
      ["disposed", "disposed"],
    );
  });

  it("registers one of two of the same name at the same time", async () => {
    const attempts = await Promise.allSettled(
      [0, 1].map(() => register(tf, [cpu()], { name: "twice", use: false })),
    );
    assert.deepEqual(attempts.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    for (const attempt of attempts) {
      if (attempt.status === "fulfilled") await attempt.value.dispose();
      else assert.match(String(attempt.reason), /a backend named twice is registered already/);
    }
    assert.equal(tf.findBackendFactory("twice"), null);
  });

  it("closes the device though the backend has been removed, and once if asked twice", async () => {
    const other = await register(tf, [cpu()], { name: "removed", use: false });
    tf.removeBackend("removed");
    await Promise.all([other.dispose(), other.dispose()]);
    assert.equal(tf.getKernel("Square", "removed"), undefined);
    assert.equal(other.compute.state, "disposed");
    await other.dispose();
  });

  it("ends with dispose", async () => {
    const other = await register(tf, [cpu()], { name: "ended", use: false });
    assert.notEqual(tf.getKernel("Square", "ended"), undefined);
    await other.dispose();
    assert.equal(tf.findBackend("ended"), null);
    assert.equal(tf.getKernel("Square", "ended"), undefined);
    assert.equal(other.compute.state, "disposed");
  });
});
