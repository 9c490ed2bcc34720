import assert from "node:assert/strict";
import type { Registration } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { name, registered, squared } from "./registered.js";

const numbers = (length: number) => Float32Array.from({ length }, (_, i) => ((i * 7) % 11) - 5);

describe("register", () => {
  let registration: Registration;
  registered((made) => {
    registration = made;
  });
  const live = () => registration.compute.memory().liveAllocations;

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

  it("pools images in different ways, one after the other", async () => {
    const results = () =>
      tf.tidy(() => {
        const x = tf.tensor4d(numbers(2 * 7 * 6 * 3), [2, 7, 6, 3]);
        const wide = tf.tensor4d(numbers(2 * 6 * 7 * 3), [2, 6, 7, 3]);
        const whole = tf.cast(x, "int32");
        const size: [number, number] = [2, 1];
        const strides: [number, number] = [1, 2];
        const padding: [[number, number], [number, number], [number, number], [number, number]] = [
          [0, 0],
          [1, 0],
          [0, 1],
          [0, 0],
        ];
        const calls = [tf.maxPool, tf.avgPool].flatMap((pool) => [
          () => pool(x, 2, 2, "valid"),
          () => pool(wide, 2, 2, "valid"),
          () => pool(x, 2, 2, "same"),
          () => pool(x, 2, 1, "same"),
          () => pool(x, 1, 1, "same"),
          () => pool(x, 1, 2, "valid"),
          () => pool(x, 2, 2, 0, "floor"),
          () => pool(x, 2, 2, 0, "ceil"),
          () => pool(x, 2, 2, 1, "ceil"),
          () => pool(x, size, strides, "valid"),
          () => {
            size.reverse();
            return pool(x, size, strides, "valid");
          },
          () => {
            strides.reverse();
            return pool(x, size, strides, "valid");
          },
          () => pool(x, 2, 2, padding, "floor"),
          () => {
            padding[1].reverse();
            padding[2].reverse();
            return pool(x, 2, 2, padding, "floor");
          },
        ]);
        calls.push(() => tf.maxPool(whole, 2, 2, "valid"));
        // Each call three times, and all of them once more: what was worked out before is at hand, or has gone.
        const all = [...calls.flatMap((call) => [call, call, call]), ...calls];
        return all.map((call) => {
          const result = call();
          return [result.shape, result.dtype, [...result.dataSync()]];
        });
      });
    await tf.setBackend("cpu");
    const expected = results();
    await tf.setBackend(name);
    assert.deepEqual(results(), expected);
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
    assert.equal((await registration.profile(() => {})).rows.length, 0);
    x.dispose();
  });

  it("times kernels, also those that the CPU has done when their call returns", async () => {
    // The threads of the CPU share products of 256 rows, and not those of 64.
    for (const [backend, rows] of [
      ["cpu", 64],
      ["cpu", 256],
      ["webgpu", 256],
    ] as const) {
      await registration.use(backend);
      const matrix = tf.ones<tf.Rank.R2>([rows, rows]);
      let bodyMs = 0;
      const { kernelMs, wallMs } = await tf.time(() => {
        const begun = performance.now();
        for (let i = 0; i < 30; i++) tf.dispose(tf.matMul(matrix, matrix));
        bodyMs = performance.now() - begun;
      });
      const told = `${backend}, ${rows} rows: ${kernelMs} of ${wallMs} ms, of which the body took ${bodyMs}`;
      assert.ok((kernelMs as number) > 0 && (kernelMs as number) <= wallMs, told);
      // Its calls may compute before they return.
      if (backend === "cpu") assert.ok((kernelMs as number) >= bodyMs, told);
      matrix.dispose();
    }
  });
});
