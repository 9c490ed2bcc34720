// Registers the gradients, which core alone does not have in Node.js.
import "@tensorflow/tfjs-layers";
import assert from "node:assert/strict";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { callsOf, describeFusion, watched } from "./fusion.js";
import type { ManyChainsReport } from "./many-chains.js";
import { registered } from "./registered.js";

describeFusion(cpu, 400);

describe("fusion", () => {
  let registration: Registration;
  registered((made) => {
    registration = made;
  });
  const live = () => registration.compute.memory().liveAllocations;
  const counts = () => ({ live: live(), ids: tf.engine().backend.numDataIds() });
  const calls = (body: () => unknown) => callsOf(registration.compute, body);

  /** On the device: few elements that only the host has would be computed there. */
  const onDevice = (values: readonly number[]): tf.Tensor1D =>
    tf.tidy(() => {
      const x = tf.squaredDifference<tf.Tensor1D>(tf.tensor1d([...values]), tf.scalar(0));
      x.dataSync();
      return x;
    });

  it("computes a chain by one call, when somebody needs it", () => {
    const [x, y] = [onDevice([1, 2, 3]), onDevice([2, 1, 0])];
    const before = counts();
    let z: tf.Tensor | undefined;
    const chain = () => tf.tidy(() => tf.sqrt(tf.add(tf.square(tf.maximum(tf.mul(x, 2), y)), 0.25)));
    assert.deepEqual(
      calls(() => {
        z = chain();
      }),
      [],
    );
    assert.equal(live(), before.live);
    assert.deepEqual(
      calls(() => z!.dataSync()),
      ["map"],
    );
    assert.deepEqual(
      [...z!.dataSync()],
      [Math.sqrt(16.25), Math.sqrt(64.25), Math.sqrt(324.25)].map(Math.fround),
    );
    z!.dispose();
    assert.deepEqual(counts(), before);
    const sum = calls(() => tf.tidy(() => tf.sum(chain()).dataSync()));
    assert.deepEqual(sum, ["map", "reduce"]);
    tf.dispose([x, y]);
  });

  it("computes chains beyond the thousandth kernel by kernel", async function () {
    this.timeout(60_000);
    const worker = new Worker(new URL("./many-chains.js", import.meta.url));
    const [report] = (await once(worker, "message")) as [ManyChainsReport];
    await worker.terminate();
    const { calls: all, again, largestError } = report;
    assert.equal(all.length, 1010);
    for (const [i, names] of all.entries())
      if (i < 1000) assert.deepEqual(names, ["map"]);
      else assert.equal(names.length, 3);
    assert.deepEqual(again, ["map"]);
    assert.ok(largestError < 1e-5, `${largestError}`);
  });

  it("does not compute what nobody needs", () => {
    const x = onDevice([1, 2, 3]);
    const before = counts();
    const names = calls(() => tf.tidy(() => void tf.exp(tf.add(x, 1))));
    assert.deepEqual(names, []);
    assert.deepEqual(counts(), before);
    x.dispose();
  });

  it("keeps inputs that are disposed of until the result is computed, or nobody needs it", () => {
    const before = counts();
    for (const isRead of [true, false]) {
      const x = onDevice([1, 2]);
      const y = tf.add(x, 1);
      const z = tf.mul(y, 2);
      tf.dispose([x, y]);
      assert.deepEqual(counts(), { live: before.live + 1, ids: before.ids + 1 });
      if (isRead) assert.deepEqual([...z.dataSync()], [4, 10]);
      assert.equal(live(), before.live + 1);
      z.dispose();
      assert.deepEqual(counts(), before);
    }
  });

  it("computes what several kernels use once", () => {
    const x = onDevice([1, 2]);
    tf.tidy(() => {
      const shared = tf.exp(x);
      // Within one chain it is a part of it.
      const one = calls(() => tf.div(shared, tf.add(shared, 1)).dataSync());
      assert.deepEqual(one, ["map"]);
    });
    tf.tidy(() => {
      const shared = tf.exp(x);
      const [a, b] = [tf.mul(shared, 2), tf.tanh(shared)];
      const two = calls(() => [a.dataSync(), b.dataSync()]);
      assert.deepEqual(two, ["unary", "binary", "unary"]);
    });
    // What was a part of a chain before is computed by itself if it is used again: at most twice.
    tf.tidy(() => {
      const used = tf.exp(x);
      const first = tf.mul(used, 2);
      assert.deepEqual(
        calls(() => first.dataSync()),
        ["map"],
      );
      assert.deepEqual(
        calls(() => tf.add(used, 1).dataSync()),
        ["unary", "binary"],
      );
    });
    x.dispose();
  });

  it("does not make a step of an optimizer a part of the next ones", () => {
    const before = counts();
    let [weights, momentum] = [onDevice([1, 2]), onDevice([0, 0])];
    for (let i = 1; i < 6; i++) {
      const next = tf.tidy(() => {
        const gradient = tf.reverse(tf.mul(weights, 2), 0);
        const changed = tf.add(tf.mul(momentum, 0.5), gradient);
        return [tf.sub(weights, tf.mul(changed, 0.25)), changed] as const;
      });
      tf.dispose([weights, momentum]);
      [weights, momentum] = next as [tf.Tensor1D, tf.Tensor1D];
      tf.tidy(() => tf.sum(weights).dataSync());
      // The weights, and of what the momentum is made: the one before and the gradient.
      assert.ok(live() <= before.live + 3, `${live() - before.live} allocations after step ${i}`);
    }
    tf.dispose([weights, momentum]);
    assert.deepEqual(counts(), before);
  });

  it("is bounded, however long a chain is, and however many inputs it has", () => {
    const x = onDevice([1, 2]);
    const before = counts();
    let names = calls(() =>
      tf.tidy(() => {
        let y: tf.Tensor = x;
        for (let i = 0; i < 500; i++) y = tf.add(y, 1);
        assert.deepEqual([...y.dataSync()], [501, 504]);
      }),
    );
    assert.ok(names.length > 10 && names.length < 100, `${names.length} calls`);
    const many = Array.from({ length: 20 }, (_, i) => onDevice([i, 1]));
    names = calls(() =>
      tf.tidy(() => {
        let y: tf.Tensor = x;
        for (const other of many) y = tf.sub(y, other);
        assert.deepEqual([...y.dataSync()], [1 - 2470, 4 - 20]);
      }),
    );
    assert.ok(names.length >= 3 && names.length < 10, `${names.length} calls`);
    tf.dispose(many);
    assert.deepEqual(counts(), before);
    x.dispose();
  });

  it("holds no more memory that nobody else uses than a limit", () => {
    const before = live();
    const count = 2 ** 22;
    const results: tf.Tensor[] = [];
    // 16 MiB each.
    for (let i = 0; i < 12; i++)
      results.push(
        tf.tidy(() => tf.add(tf.reverse(tf.fill([count], i), 0), tf.reverse(tf.fill([count], i), 0))),
      );
    assert.ok(live() - before < 12 + 8, `${live() - before} allocations`);
    assert.equal(
      tf.tidy(() => tf.max(results[11]!).dataSync()[0]),
      22,
    );
    tf.dispose(results);
    assert.equal(live(), before);
  });

  it("leaves a result pending if it cannot be computed, to be tried again", () => {
    const x = onDevice([1, 2]);
    const before = counts();
    const y = tf.tidy(() => tf.mul(tf.add(x, 1), 3));
    const { compute } = registration;
    for (const method of ["alloc", "map"] as const) {
      compute[method] = () => {
        throw new Error("a fault");
      };
      try {
        assert.throws(() => y.dataSync(), /a fault/);
        assert.throws(() => tf.tidy(() => tf.sum(y)), /a fault/);
      } finally {
        Reflect.deleteProperty(compute, method);
      }
      assert.deepEqual(counts(), { live: before.live, ids: before.ids + 1 });
    }
    assert.deepEqual([...y.dataSync()], [6, 15]);
    tf.dispose([x, y]);
  });

  it("carries what is pending over swaps", async () => {
    const x = onDevice([1, 2]);
    const y = tf.tidy(() => tf.mul(tf.add(x, 1), 3));
    x.dispose();
    await registration.use("webgpu");
    const z = tf.sub(y, 1);
    assert.deepEqual([...(await z.data())], [5, 14]);
    const w = tf.tidy(() => tf.add(tf.neg(z), 1));
    await registration.use("cpu");
    assert.deepEqual([...w.dataSync()], [-4, -13]);
    tf.dispose([y, z, w]);
  });

  it("computes what is pending of values that survive the loss of a device, and fails for others", async () => {
    await registration.use("webgpu");
    const before = tf.engine().backend.numDataIds();
    const known = tf.tidy(() => tf.squaredDifference(tf.tensor1d([1, 2]), tf.scalar(0)));
    await known.data();
    const unknown = tf.tidy(() => tf.reverse(known, 0));
    const [a, b] = [tf.add(known, 1), tf.add(unknown, 1)];
    const later = tf.mul(b, 2);
    unknown.dispose();
    const device = registration.compute.inner.native() as { destroy(): void };
    const lost = new Promise<void>((resolve) => {
      registration.compute.onLost(() => resolve());
    });
    device.destroy();
    await lost;
    await registration.use("cpu");
    assert.deepEqual([...a.dataSync()], [2, 5]);
    assert.throws(() => b.dataSync(), { code: "DEVICE_LOST" });
    assert.throws(() => later.dataSync(), { code: "DEVICE_LOST" });
    tf.dispose([known, a, b, later]);
    assert.equal(tf.engine().backend.numDataIds(), before);
  });

  it("waits for what is pending in time and profile", async () => {
    const x = onDevice([1, 2]);
    const results: tf.Tensor[] = [];
    const { names, end } = watched(registration.compute);
    await tf.time(() => results.push(tf.add(x, 1)));
    assert.deepEqual(names.splice(0), ["binary"]);
    await registration.profile(() => results.push(tf.tidy(() => tf.exp(tf.add(x, 1)))));
    assert.deepEqual(names, ["map"]);
    end();
    tf.dispose([x, ...results]);
  });

  it("computes at once while gradients are recorded", () => {
    const x = onDevice([1, 2]);
    const names = calls(() => {
      const { value, grad } = tf.valueAndGrad((y: tf.Tensor) => tf.sum(tf.square(tf.add(y, 1))))(x);
      tf.dispose([value, grad]);
    });
    assert.deepEqual(names.slice(0, 3), ["binary", "unary", "reduce"]);
    x.dispose();
  });

  it("is turned off by the option", async () => {
    const other = await register(tf, [cpu()], { name: "unfused", fusion: false, hostElements: 0 });
    const names = callsOf(other.compute, () => tf.tidy(() => void tf.exp(tf.add(tf.ones([3]), 1))));
    assert.deepEqual(names, ["binary", "unary"]);
    await assert.rejects(
      register(tf, [cpu()], { name: "neither", fusion: 1 as unknown as boolean }),
      /fusion is 1; allowed: true or false/,
    );
    await tf.setBackend(registration.name);
    await other.dispose();
  });

  it("ends with the backend", async () => {
    const other = await register(tf, [cpu(), webgpu()], { name: "ending", hostElements: 0 });
    const x = tf.reverse(tf.tensor1d([1, 2]), 0);
    tf.add(tf.mul(x, 2), 1);
    x.dispose();
    await tf.setBackend(registration.name);
    tf.removeBackend("ending");
    assert.equal(other.compute.memory().liveAllocations, 0);
    await other.dispose();
  });
});
