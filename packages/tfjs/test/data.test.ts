import assert from "node:assert/strict";
import type { Registration } from "@backplane/tfjs";
import { MathBackendCPU } from "@tensorflow/tfjs-backend-cpu";
import * as tf from "@tensorflow/tfjs-core";
import { registered, squared } from "./registered.js";

describe("register", () => {
  let registration: Registration;
  registered((made) => {
    registration = made;
  });
  const live = () => registration.compute.memory().liveAllocations;

  it("shares the data of reshaped and cloned tensors", () => {
    const before = { live: live(), ids: tf.engine().backend.numDataIds() };
    const x = squared(tf.tensor1d([1, 2, 3, 4]));
    const views = [tf.reshape(x, [2, 2]), tf.clone(x), tf.expandDims(x, 0)];
    assert.equal(tf.engine().backend.numDataIds(), before.ids + 2);
    x.dispose();
    for (const view of views) assert.deepEqual([...view.dataSync()], [1, 4, 9, 16]);
    tf.dispose(views);
    assert.equal(tf.engine().backend.numDataIds(), before.ids + 1);
  });

  it("shares the memory of parts in one piece, as long as any of them lives", () => {
    const before = live();
    tf.engine().startScope();
    const x = squared(tf.reshape(tf.range(1, 17), [4, 4]));
    const rows = tf.slice(x, [1, 0], [3, 4]);
    const first = live();
    const [row, all] = [tf.slice(rows, [1, 0], [1, 4]), tf.split(rows, 3)];
    const two = tf.slice(tf.reshape(rows, [12]), 8, 2);
    assert.equal(live(), first);
    x.dispose();
    rows.dispose();
    // Of the device, at places other than the beginning of the memory.
    const squares = (begin: number, end: number) =>
      Array.from({ length: end - begin }, (_, i) => (begin + i) ** 2);
    const image = () => tf.reshape<tf.Rank.R3>(row, [2, 2, 1]);
    const filter = () => tf.reshape<tf.Rank.R4>(all[0]!, [1, 1, 1, 4]);
    const results: [() => tf.Tensor, number[]][] = [
      [() => row, squares(9, 13)],
      [() => all[2]!, squares(13, 17)],
      [() => two, squares(13, 15)],
      [() => tf.add(row, all[0]!), squares(9, 13).map((value, i) => value + (5 + i) ** 2)],
      [() => tf.elu(row), squares(9, 13)],
      [() => tf.sum(row), [81 + 100 + 121 + 144]],
      [() => tf.concat([row, all[0]!], 1), [...squares(9, 13), ...squares(5, 9)]],
      [() => tf.transpose(tf.reshape(row, [2, 2])), [81, 121, 100, 144]],
      [
        () => tf.matMul(tf.reshape(two, [1, 2]), tf.reshape(row, [2, 2])),
        [169 * 81 + 196 * 121, 169 * 100 + 196 * 144],
      ],
      [() => tf.gather(row, tf.tensor1d([3], "int32"), 1), [144]],
      [
        () => tf.conv2d(image(), filter(), 1, "same"),
        squares(9, 13).flatMap((a) => squares(5, 9).map((b) => a * b)),
      ],
      [() => tf.slice(two, 1, 1), [196]],
    ];
    for (const [run, expected] of results) assert.deepEqual([...run().dataSync()], expected, String(run));
    const whole = squared(tf.fill([2, 4], 3, "int32"));
    const part = tf.slice(whole, [1, 0], [1, 4]);
    assert.deepEqual([...tf.matMul(part, part, false, true).dataSync()], [4 * 81]);
    tf.engine().endScope();
    assert.equal(live(), before);
  });

  it("copies a part that would keep a memory of more than eight times its size, or begins between vectors", () => {
    const x = squared(tf.range(0, 36));
    x.dataSync();
    const before = live();
    const parts = [tf.slice(x, 4, 5), tf.slice(x, 4, 4), tf.slice(x, 6, 20)];
    assert.equal(live(), before + 2);
    // A part of a part counts as one of the whole.
    parts.push(tf.slice(parts[0]!, 0, 4));
    assert.equal(live(), before + 3);
    const expected = [
      [4, 5],
      [4, 4],
      [6, 20],
      [4, 4],
    ].map(([begin, length]) => Array.from({ length: length! }, (_, i) => (begin! + i) ** 2));
    assert.deepEqual(
      parts.map((part) => [...part.dataSync()]),
      expected,
    );
    tf.dispose([x, ...parts]);
    assert.equal(live(), before - 1);
  });

  it("frees all of a complex tensor", () => {
    const before = { live: live(), ids: tf.engine().backend.numDataIds() };
    const values = tf.tidy(() => {
      const x = tf.complex(tf.tensor1d([3, 0]), tf.tensor1d([4, -1]));
      return [...tf.abs(tf.mul(x, x)).dataSync()];
    });
    assert.deepEqual(values, [25, 1]);
    assert.deepEqual({ live: live(), ids: tf.engine().backend.numDataIds() }, before);
  });

  it("counts the data of complex tensors, their parts and what they were made of until each of them ends", () => {
    const counts = () => {
      const { numTensors, numDataBuffers, numBytes } = tf.memory();
      return { numTensors, numDataBuffers, numBytes, live: registration.compute.memory().liveAllocations };
    };
    const before = counts();
    for (const onDevice of [false, true]) {
      const x = tf.tidy(() => (onDevice ? tf.square(tf.tensor1d([3, 4])) : tf.tensor1d([9, 16])));
      const made = tf.complex(x, x);
      const parts = [tf.real(made), tf.imag(made), tf.cast(made, "float32")];
      const fromReal = tf.cast(x, "complex64");
      tf.dispose([made, x]);
      for (const part of parts) assert.deepEqual([...part.dataSync()], [9, 16]);
      assert.deepEqual([...fromReal.dataSync()], [9, 0, 16, 0]);
      tf.dispose([...parts, fromReal]);
      assert.deepEqual(counts(), before);
    }
  });

  it("frees what a kernel has made if it fails, on the device and on the host", async () => {
    const x = squared(tf.tensor1d([1, 2, 3]));
    const z = tf.complex(x, x);
    const count = () => ({ live: live(), ids: tf.engine().backend.numDataIds() });
    const before = count();
    const { compute } = registration;
    for (const [name, call] of [
      ["map", () => tf.mul(z, z)],
      ["batchedGemm", () => tf.matMul(tf.reshape(x, [1, 3]), tf.reshape(x, [3, 1]))],
      ["sort", () => tf.topk(x, 2).values],
    ] as const) {
      compute[name] = () => {
        throw new Error("a fault");
      };
      try {
        assert.throws(() => tf.tidy(call), /a fault/);
      } finally {
        Reflect.deleteProperty(compute, name);
      }
      assert.deepEqual(count(), before);
    }
    const { move } = MathBackendCPU.prototype;
    let host: MathBackendCPU | undefined;
    MathBackendCPU.prototype.move = function (...args) {
      host = this;
      return move.apply(this, args);
    };
    try {
      assert.throws(() => tf.unique(x, 5), /axis/);
    } finally {
      MathBackendCPU.prototype.move = move;
    }
    assert.equal(host?.numDataIds(), 0);
    tf.dispose([x, z]);
  });

  it("makes a range of nothing where no number of steps leads from its start to its end", () => {
    const before = tf.memory().numBytes;
    const range = tf.range(0, 5, Number.NaN);
    assert.deepEqual(range.shape, [0]);
    assert.equal(tf.memory().numBytes, before);
    range.dispose();
  });
});
