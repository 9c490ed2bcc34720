import assert from "node:assert/strict";
import { cpu } from "@backplane/backend-cpu";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { name, registered, squared } from "./registered.js";

describe("register", () => {
  let registration: Registration;
  // These tests count what each kernel allocates.
  registered((made) => {
    registration = made;
  }, false);
  const live = () => registration.compute.memory().liveAllocations;

  it("leaves values on the host until a kernel needs them on the device", () => {
    const before = live();
    const x = tf.tensor1d([1, 2, 3]);
    const zeros = tf.zeros([100]);
    assert.deepEqual([...x.dataSync()], [1, 2, 3]);
    assert.equal(zeros.dataSync().length, 100);
    assert.equal(live(), before);
    const y = squared(x);
    assert.equal(live(), before + 2);
    assert.deepEqual([...y.dataSync()], [1, 4, 9]);
    tf.dispose([x, y, zeros]);
    assert.equal(live(), before);
  });

  it("does not write numbers of the host to the device", () => {
    const x = squared(tf.tensor1d([1, 2, 3]));
    const before = live();
    const two: tf.Tensor = tf.scalar(2);
    const huge = tf.fill([1], 1e39);
    const product = tf.mul(x, two);
    assert.equal(live(), before + 1);
    const numbers: [() => tf.Tensor, number[]][] = [
      [() => tf.mul(x, two), [2, 8, 18]],
      [() => tf.sub(two, x), [1, -2, -7]],
      [() => tf.add(x, tf.ones([1, 1])), [2, 5, 10]],
      [() => tf.squaredDifference(two, x), [1, 4, 49]],
      [() => tf.where(tf.greater(x, two), x, two), [2, 4, 9]],
      [() => tf.mul(tf.cast(x, "int32"), tf.scalar(2 ** 30 + 1, "int32")), [2 ** 30 + 1, 4, 2 ** 30 + 9]],
      [() => tf.mul(two, two), [4]],
      [() => tf.mul(x, Number.NaN), [Number.NaN, Number.NaN, Number.NaN]],
    ];
    for (const [run, expected] of numbers) {
      const values = tf.tidy(() => {
        const result = run();
        return [...result.dataSync()];
      });
      assert.deepEqual(values, expected, String(run));
    }
    // Too large for float32.
    const infinite = tf.mul(x, huge);
    assert.deepEqual([...infinite.dataSync()], new Array(3).fill(Number.POSITIVE_INFINITY));
    tf.dispose([x, two, huge, product, infinite]);
  });

  it("gives values that it has computed on the host in memory of their own", async () => {
    for (const length of [5, 16, 17, 33, 256, 257]) {
      const values = Float32Array.from({ length }, (_, i) => i + length);
      const [x, y] = [tf.add(values, 1), tf.sub(tf.tensor1d(values), tf.tensor1d(values))];
      const clone = tf.tidy(() => tf.real(tf.complex(x, y)));
      const reads = [() => x.dataSync(), () => clone.data(), () => y.data(), () => y.dataSync()];
      for (const read of reads) {
        const given = await read();
        assert.equal(given.buffer.byteLength, 4 * length);
        assert.equal(given.length, length);
      }
      assert.deepEqual(
        [...x.dataSync()],
        [...values].map((value) => value + 1),
      );
      // Nobody's values change with it.
      y.dataSync().fill(7);
      assert.deepEqual([...clone.dataSync()], [...x.dataSync()]);
      tf.dispose([x, y, clone]);
    }
  });

  it("moves, adds and compares few elements on the host, if nobody has needed them on the device", async () => {
    const before = live();
    const floats = () => tf.tensor2d([1, -2, Number.NaN, 4e9, 5, 0.1], [2, 3]);
    const whole = () => tf.tensor2d([2 ** 31 - 1, 2, -3, 2 ** 24 + 1, 5, 6], [2, 3], "int32");
    const row = () => tf.tensor1d([3, 0.7, -1]);
    const wholeRow = () => tf.tensor1d([2 ** 24 + 3, 1, -7], "int32");
    const truth = () => tf.tensor2d([1, 0, 1, 0, 0, 1], [2, 3], "bool");
    // The second of each: results.
    const calls: [() => tf.Tensor | tf.Tensor[], number][] = [
      ...[tf.add, tf.sub, tf.mul].flatMap((call): [() => tf.Tensor, number][] => [
        [() => call(floats(), row()), 1],
        [() => call(whole(), wholeRow()), 1],
      ]),
      ...[tf.equal, tf.notEqual, tf.less, tf.lessEqual, tf.greater, tf.greaterEqual].map(
        (call): [() => tf.Tensor, number] => [() => call(floats(), row()), 1],
      ),
      [() => tf.where(truth(), floats(), tf.onesLike(floats())), 1],
      [() => tf.transpose(whole()), 1],
      [() => tf.slice(floats(), [0, 1], [2, 2]), 1],
      [() => tf.stridedSlice(floats(), [1, 2], [0, 0], [-1, -2], 1, 1), 1],
      [() => tf.reverse(truth(), 1), 1],
      [() => tf.tile(row(), [3]), 1],
      [
        () =>
          tf.pad(
            floats(),
            [
              [0, 1],
              [2, 0],
            ],
            7,
          ),
        1,
      ],
      [() => tf.concat([floats(), floats()], 1), 1],
      [() => tf.stack([whole(), whole()], 1), 1],
      [() => tf.split(floats(), 3, 1), 3],
      [() => tf.unstack(truth()), 2],
      [() => tf.add(tf.zeros([0, 3]), row()), 1],
      [
        () =>
          tf.pad(
            whole(),
            [
              [1, 0],
              [0, 0],
            ],
            -2.5,
          ),
        1,
      ],
      [() => tf.sub(floats(), tf.tensor2d([0.5, -7], [2, 1])), 1],
      [() => tf.sub(tf.tensor3d([1, 2, 3, 4], [2, 2, 1]), tf.tensor3d([5, 6, 7], [1, 1, 3])), 1],
      [() => tf.sub(tf.tensor1d([7], "int32"), whole()), 1],
      [() => tf.mul(row(), tf.tensor2d([4, 5], [2, 1])), 1],
    ];
    const valuesOf = (call: () => tf.Tensor | tf.Tensor[]) =>
      tf.tidy(() => [call()].flat().map((result) => [result.shape, result.dtype, [...result.dataSync()]]));
    const other = await register(tf, [cpu()], { name: "device", use: false, hostElements: 0 });
    for (const [call, results] of calls) {
      await tf.setBackend("device");
      const { rows: onDevice } = await other.profile(() => valuesOf(call));
      assert.ok(onDevice.every(({ onHost }) => onHost === 0));
      const expected = valuesOf(call);
      await tf.setBackend(name);
      assert.deepEqual(valuesOf(call), expected, String(call));
      const { rows } = await registration.profile(() => valuesOf(call));
      const computed = rows.reduce((sum, { onHost }) => sum + onHost, 0);
      assert.ok(computed >= results, `${call} computed ${computed} results on the host`);
      assert.equal(live(), before);
    }
    await other.dispose();
    // Too many, without a function there, and of axes that are no neighbours.
    for (const call of [
      () => tf.add(tf.ones([1001]), tf.ones([1001])),
      () => tf.tile(tf.ones([600]), [2]),
      () => tf.tanh(tf.ones([63])),
      () => tf.sum(tf.ones([1001])),
      () => tf.erf(row()),
      () => tf.sum(tf.ones([2, 2, 2]), [0, 2]),
      () => tf.sum(tf.tensor1d([], "float32")),
      () => tf.add(row(), whole()),
    ]) {
      const { rows } = await registration.profile(() => tf.tidy(() => void call()));
      assert.ok(rows.every(({ onHost }) => onHost === 0));
    }
    for (const hostElements of [-1, 0.5, "7"] as number[])
      await assert.rejects(
        register(tf, [cpu()], { name: "none", hostElements }),
        /hostElements is .*; allowed: a whole number/,
      );
  });

  it("wraps sums of many whole numbers around on the host, and leaves numbers that a device refuses to it", async () => {
    assert.throws(() => tf.leakyRelu(tf.tensor1d([-1]), 1e39), /1e\+39; allowed/);
    const all = await register(tf, [cpu()], { name: "all", use: false, hostElements: 2 ** 30 });
    await tf.setBackend("all");
    const count = 2 ** 23 + 1;
    const numbers = tf.tensor1d(new Int32Array(count).fill(2 ** 31 - 1), "int32");
    const sum = tf.sum(numbers);
    assert.deepEqual([...sum.dataSync()], [Number(BigInt.asIntN(32, BigInt(count) * (2n ** 31n - 1n)))]);
    tf.dispose([numbers, sum]);
    await tf.setBackend(name);
    await all.dispose();
  });

  it("computes functions and sums of few numbers of the host there, like the device but for last bits", async () => {
    const before = live();
    const special = () =>
      tf.tensor1d([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, -2, 3]);
    const floats = () => tf.tensor2d([0.25, -0.5, 0.75, 0.875, -0.125, 0.5], [2, 3]);
    const positive = () => tf.tensor1d([1, 1.5, 2, 40]);
    const whole = () => tf.tensor2d([46341, -(2 ** 31), 3, -4, 2 ** 31 - 1, 0], [2, 3], "int32");
    const truth = () => tf.tensor1d([1, 0, 1], "bool");
    const cube = () => tf.tensor3d([1, 8, 2, 7, 3, 6, 4, 5, -1, -8, -2, -7], [2, 3, 2]);
    const calls: (() => tf.Tensor)[] = [
      ...[tf.acos, tf.asin, tf.asinh, tf.atan, tf.atanh, tf.cos, tf.cosh, tf.exp, tf.expm1, tf.sigmoid].map(
        (of) => () => of(floats()),
      ),
      ...[tf.sin, tf.sinh, tf.softplus, tf.tan, tf.tanh, tf.elu, tf.selu, tf.relu, tf.relu6].map(
        (of) => () => of(floats()),
      ),
      ...[tf.acosh, tf.log, tf.log1p, tf.reciprocal, tf.rsqrt, tf.sqrt].map((of) => () => of(positive())),
      ...[tf.abs, tf.ceil, tf.exp, tf.floor, tf.neg, tf.relu, tf.relu6, tf.sigmoid, tf.square, tf.tanh].map(
        (of) => () => of(special()),
      ),
      ...[tf.elu, tf.selu, tf.sqrt, tf.log].map((of) => () => of(special())),
      ...[tf.abs, tf.neg, tf.square, tf.exp].map((of) => () => of(whole())),
      ...[tf.abs, tf.neg, tf.exp].map((of) => () => of(truth())),
      () => tf.leakyRelu(special(), 0.3),
      () => tf.logicalNot(truth()),
      () => tf.clipByValue(special(), -1, 2),
      () => tf.clipByValue(special(), Number.NEGATIVE_INFINITY, 2),
      () => tf.clipByValue(whole(), -1.5, 2.5),
      () => tf.div(floats(), floats()),
      () => tf.maximum(special(), 1),
      () => tf.minimum(whole(), tf.scalar(5, "int32")),
      ...[tf.sum, tf.mean, tf.max, tf.min].flatMap((of) => [
        () => of(cube()),
        () => of(cube(), 0),
        () => of(cube(), 1, true),
        () => of(cube(), [1, 2]),
        () => of(cube(), [0, 1]),
        () => of(special()),
        () => of(tf.scalar(2.5)),
      ]),
      ...[tf.sum, tf.max, tf.min].map((of) => () => of(whole(), 1)),
      ...[tf.argMax, tf.argMin].flatMap((of) => [
        () => of(cube(), 0),
        () => of(cube(), 1),
        () => of(whole(), 1),
        () => of(special()),
        () => of(tf.tensor2d([Number.NaN, Number.NEGATIVE_INFINITY, Number.NaN, 7], [2, 2]), 1),
        () => of(tf.tensor1d([5, 5, 1, 1])),
      ]),
    ];
    const readOf = (call: () => tf.Tensor) =>
      tf.tidy(() => {
        const result = call();
        return { shape: result.shape, dtype: result.dtype, values: [...result.dataSync()] };
      });
    const other = await register(tf, [cpu()], { name: "device", use: false, hostElements: 0 });
    for (const call of calls) {
      await tf.setBackend("device");
      const { rows: onDevice } = await other.profile(() => readOf(call));
      assert.ok(onDevice.every(({ onHost }) => onHost === 0));
      const expected = readOf(call);
      await tf.setBackend(name);
      const actual = readOf(call);
      const what = `${call}: ${actual.values}; on the device: ${expected.values}`;
      assert.deepEqual([actual.shape, actual.dtype], [expected.shape, expected.dtype], what);
      for (const [i, value] of expected.values.entries()) {
        const found = actual.values[i]!;
        const isSame = Object.is(found, value) || Math.abs(found - value) <= 1e-6 * Math.abs(value);
        assert.ok(isSame || (found === 0 && value === 0), what);
      }
      const { rows } = await registration.profile(() => readOf(call));
      assert.equal(
        rows.reduce((sum, { onHost }) => sum + onHost, 0),
        1,
        what,
      );
      assert.equal(live(), before);
    }
    // What has been on the device is computed there.
    const x = floats();
    tf.dispose(tf.erf(x));
    const { rows } = await registration.profile(() => void tf.dispose(tf.exp(x)));
    assert.ok(rows.every(({ onHost }) => onHost === 0));
    x.dispose();
    await other.dispose();
  });
});
