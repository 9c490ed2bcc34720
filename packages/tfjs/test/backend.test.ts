import assert from "node:assert/strict";
import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import type { BackendProvider, ComputeBackend } from "@backplane/core";
import { type Registration, register } from "@backplane/tfjs";
import { MathBackendCPU } from "@tensorflow/tfjs-backend-cpu";
import * as tf from "@tensorflow/tfjs-core";

/** The squares, by a kernel that is for the device, however few they are. */
function squared<T extends tf.Tensor>(x: T): T {
  return tf.tidy(() => tf.squaredDifference<T>(x, tf.scalar(0, x.dtype as "float32")));
}

describe("register", () => {
  const name = "registered";
  let registration: Registration;

  before(async () => {
    registration = await register(tf, [cpu(), webgpu()], { name });
  });

  after(async () => {
    await tf.setBackend("cpu");
    await registration.dispose();
  });

  beforeEach(async () => {
    await registration.use("cpu");
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

  it("takes whole numbers in kernels that compute with floats, and keeps epilogues of their products", () => {
    const numbers = (count: number) => Array.from({ length: count }, (_, i) => i + 1);
    const cube = () => tf.tensor5d(numbers(8), [1, 2, 2, 2, 1], "int32");
    const filter = () => tf.tensor5d(numbers(8), [2, 2, 2, 1, 1], "int32");
    const a = () => tf.tensor2d([1, -2, 3, -4], [2, 2], "int32");
    const bias = () => tf.tensor1d([2 ** 24 + 1, -3], "int32");
    const row = () => tf.tensor1d([1, 3], "int32");
    for (const [run, expected] of [
      [() => tf.conv3d(cube(), filter(), 1, "valid"), [204]],
      [
        () =>
          tf.conv3dTranspose(
            tf.tensor5d([3], [1, 1, 1, 1, 1], "int32"),
            filter(),
            [1, 2, 2, 2, 1],
            1,
            "valid",
          ),
        [3, 6, 9, 12, 15, 18, 21, 24],
      ],
      [() => tf.fused.matMul({ a: a(), b: a(), bias: bias() }), [2 ** 24 - 4, 3, 2 ** 24 - 8, 7]],
      [() => tf.fused.matMul({ a: a(), b: a(), activation: "relu" }), [0, 6, 0, 10]],
      [() => tf.fused.matMul({ a: a(), b: a(), bias: row(), activation: "relu6" }), [0, 6, 0, 6]],
      [
        () => tf.batchNorm(tf.tensor2d([1, 2, 3, 4], [2, 2]), row(), row(), undefined, undefined, 1),
        [0, -0.5, Math.SQRT2, 0.5],
      ],
      [
        () => tf.localResponseNormalization(tf.tensor4d([3, 4], [1, 1, 1, 2], "int32"), 1, 0, 1, 0.5),
        [0.6, 0.8],
      ],
    ] as const) {
      const values = tf.tidy(() => [...run().dataSync()]);
      assert.equal(values.length, expected.length);
      for (const [i, value] of values.entries())
        assert.ok(Math.abs(value - expected[i]!) < 1e-5, `${run}: ${values}; expected ${expected}`);
    }
  });

  it("convolves with one filter in different ways, one after the other", async () => {
    const numbers = (length: number) => Float32Array.from({ length }, (_, i) => ((i * 7) % 11) - 5);
    interface Calls {
      readonly filters: readonly tf.Tensor[];
      readonly calls: readonly (() => tf.Tensor)[];
    }
    const prepare = (): Calls => {
      const x = tf.tensor4d(numbers(2 * 7 * 6 * 3), [2, 7, 6, 3]);
      const wide = tf.tensor4d(numbers(2 * 6 * 7 * 3), [2, 6, 7, 3]);
      const first = tf.tensor4d(numbers(3 * 7 * 6), [1, 3, 7, 6]);
      const cube = tf.tensor4d(numbers(27), [1, 3, 3, 3]);
      const filter = tf.tensor4d(numbers(3 * 3 * 3 * 3), [3, 3, 3, 3]);
      const point = tf.tensor4d(numbers(9), [1, 1, 3, 3]);
      const strides: [number, number] = [1, 2];
      const padding: [[number, number], [number, number], [number, number], [number, number]] = [
        [0, 0],
        [1, 2],
        [0, 1],
        [0, 0],
      ];
      const calls = [
        () => tf.conv2d(cube, filter, 1, "same", "NHWC"),
        () => tf.conv2d(cube, filter, 1, "same", "NCHW"),
        () => tf.conv2d(x, filter, 1, "same"),
        () => tf.conv2d(x, filter, 1, "valid"),
        () => tf.conv2d(x, filter, 1, 1),
        () => tf.conv2d(wide, filter, 1, 1),
        () => tf.conv2d(x, filter, strides, "same"),
        () => {
          strides.reverse();
          return tf.conv2d(x, filter, strides, "same");
        },
        () => tf.conv2d(x, filter, 1, padding),
        () => {
          padding[1].reverse();
          return tf.conv2d(x, filter, 1, padding);
        },
        () => tf.conv2d(x, filter, 1, "same", "NHWC", 2),
        () => tf.conv2d(x, filter, 1, "same", "NHWC", [2, 1]),
        () => tf.depthwiseConv2d(x, filter, 1, "same"),
        () => tf.depthwiseConv2d(x, filter, 2, "same"),
        () => tf.conv2d(x, filter, 2, "same"),
        () => tf.conv2d(x, tf.reshape<tf.Rank.R4>(filter, [1, 9, 3, 3]), 1, "same"),
        () => tf.conv2d(x, tf.reshape<tf.Rank.R4>(filter, [9, 1, 3, 3]), 1, "same"),
        () => tf.conv2d(x, point, 1, "same"),
        () => tf.conv2d(x, point, 2, "same"),
        () => tf.conv2d(first, point, 1, "same", "NCHW"),
        () => tf.conv2d(tf.reshape<tf.Rank.R4>(first, [1, 7, 6, 3]), point, 1, "same"),
        () => tf.conv2d(x, point, 2, 0, "NHWC", 1, "ceil"),
        () => tf.conv2d(x, point, 2, 0, "NHWC", 1, "floor"),
        () => tf.conv2d(cube, point, 1, "same", "NCHW"),
        () => tf.conv2d(cube, point, 1, "same", "NHWC"),
      ];
      return { filters: [filter, point], calls };
    };
    // Each call twice: the second may go by what the first has worked out.
    const results = (afterCall: (filters: Calls["filters"]) => void) => {
      const all: { shape: number[]; values: number[] }[] = [];
      tf.tidy(() => {
        const { filters, calls } = prepare();
        for (const call of calls.flatMap((each) => [each, each])) {
          const result = call();
          all.push({ shape: result.shape, values: [...result.dataSync()] });
          afterCall(filters);
        }
      });
      return all;
    };
    await tf.setBackend("cpu");
    const expected = results(() => {});
    await tf.setBackend(name);
    const backend = tf.backend() as unknown as { noted(filter: tf.TensorInfo): object | undefined };
    const count = () => ({ live: live(), ids: tf.engine().backend.numDataIds() });
    const before = count();
    const notes: (object | undefined)[][] = [];
    const given = results((filters) => notes.push(filters.map((filter) => backend.noted(filter))));
    assert.deepEqual(given, expected);
    assert.deepEqual(count(), before);
    const isKept = (i: number) => notes[i]!.every((note, f) => note === notes[i - 1]![f]);
    const kept = notes.map((_, i) => i > 0 && isKept(i));
    // Only lists of paddings, and lists of strides that have changed, are worked out again.
    const renewed = kept.flatMap((same, i) => (i % 2 === 1 && !same ? [(i - 1) / 2] : []));
    assert.deepEqual(renewed, [7, 8, 9]);
    assert.equal(
      kept.some((same, i) => i % 2 === 0 && same),
      false,
    );
  });

  it("takes pixels that are bytes", async () => {
    const before = live();
    const image = { width: 3, height: 2, data: Uint8Array.from({ length: 24 }, (_, i) => 255 - i) };
    for (const channels of [1, 2, 3, 4]) {
      const pixels = tf.browser.fromPixels(image, channels);
      assert.deepEqual([pixels.shape, pixels.dtype], [[2, 3, channels], "int32"]);
      const expected = [...image.data].filter((_, i) => i % 4 < channels);
      assert.deepEqual([...(await pixels.data())], expected);
      pixels.dispose();
    }
    const none = tf.browser.fromPixels({ width: 0, height: 2, data: new Uint8Array() });
    assert.deepEqual(none.shape, [2, 0, 3]);
    none.dispose();
    assert.equal(live(), before);
    assert.throws(() => tf.browser.fromPixels({ ...image, width: 4 }), /data has 24 elements; allowed: 32/);
    assert.throws(() => tf.browser.fromPixels(image, 0), /numChannels is 0; allowed: 1, 2, 3 and 4/);
    assert.equal(live(), before);
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

  it("profiles kernels", async () => {
    const x = tf.tensor1d([1, 2, 3]);
    const profile = await registration.profile(() =>
      tf.tidy(() => tf.add(squared(x), squared(x)).dataSync()),
    );
    const calls = Object.fromEntries(profile.rows.map((row) => [row.kernel, row.calls]));
    assert.deepEqual(calls, { SquaredDifference: 2, Add: 1 });
    assert.ok(profile.rows.every(({ onHost }) => onHost === 0));
    const { rows } = await registration.profile(() => tf.tidy(() => void tf.split(tf.add(x, x), 3)));
    assert.deepEqual(
      rows.map(({ kernel, onHost }) => [kernel, onHost]).sort(),
      [
        ["Add", 0],
        ["SplitV", 0],
      ],
      "x has been on the device",
    );
    const { kernelMs } = await tf.time(() => tf.dispose(squared(x)));
    assert.equal(typeof kernelMs, "number");
    assert.equal((await registration.profile(() => {})).rows.length, 0);
    x.dispose();
  });

  it("makes a range of nothing where no number of steps leads from its start to its end", () => {
    const before = tf.memory().numBytes;
    const range = tf.range(0, 5, Number.NaN);
    assert.deepEqual(range.shape, [0]);
    assert.equal(tf.memory().numBytes, before);
    range.dispose();
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
    const unread = tf.add(read, known);
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
