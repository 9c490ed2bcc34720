import { binaryFunctions, unaryFunctions } from "@backplane/conformance/functions";
import { arithmeticKinds, floatUnaryKinds } from "@backplane/core";
import {
  attention,
  concatenate,
  conv2d,
  crossEntropy,
  dropout,
  grad,
  layerNorm,
  maxPool2d,
  meanPool2d,
  ones,
  Random,
  resize2d,
  rmsNorm,
  rope,
  rules,
  stack,
  Tape,
  type Tensor,
  tensor,
  transposedConv2d,
  valueAndGrad,
  where,
  withoutRecording,
  zeros,
} from "@backplane/tensor";
import { assert } from "chai";
import { assertClose, onCpu, throws } from "./support.js";

const bench = onCpu();

/** Where kinds are defined and smooth; others are tested from -1.7 to 1.9. */
const domains: Readonly<Record<string, readonly [number, number]>> = {
  ...{
    relu6: [-2, 8.1],
    log: [0.3, 3],
    log2: [0.3, 3],
    log1p: [-0.5, 3],
    sqrt: [0.3, 3],
    rsqrt: [0.3, 3],
    reciprocal: [0.3, 3],
  },
  ...{ asin: [-0.8, 0.8], acos: [-0.8, 0.8], atanh: [-0.8, 0.8], acosh: [1.3, 3], tan: [-1, 1] },
};

describe("the rules of elementwise functions", () => {
  const step = 2 ** -12;

  for (const kind of floatUnaryKinds) {
    if (rules[kind] === undefined) continue;
    it(`${kind}: as central differences in double precision`, async () => {
      const f = unaryFunctions[kind];
      const [from, to] = domains[kind] ?? [-1.7, 1.9];
      const places = Float32Array.from({ length: 9 }, (_, i) => from + ((to - from) * (i + 0.37)) / 9);
      const [gradient] = grad((x: Tensor) => x.unary(kind).sum())(tensor(bench.backend, places));
      const expected = Array.from(places, (x) => (f(x + step) - f(x - step)) / (2 * step));
      assertClose(await gradient!.data(), expected, 1e-5);
    });
  }

  for (const kind of arithmeticKinds)
    it(`${kind}: as central differences in double precision, also with numbers, and repeated`, async () => {
      const f = binaryFunctions[kind];
      const a = Float32Array.of(0.7, 1.3, 2.6, 0.4, 3.1, 1.9);
      const b = Float32Array.of(1.1, 0.6, 2.1);
      const number = 1.45;
      const gradients = grad((x: Tensor, y: Tensor) =>
        x.binary(kind, y).add(x.binary(kind, number)).add(y.binaryFrom(kind, number)).sum(),
      )(tensor(bench.backend, a, { shape: [2, 3] }), tensor(bench.backend, b));
      const slope = (g: (x: number) => number, x: number): number => (g(x + step) - g(x - step)) / (2 * step);
      assertClose(
        await gradients[0]!.data(),
        Array.from(a, (x, i) => slope((at) => f(at, b[i % 3]!) + f(at, number), x)),
        1e-5,
      );
      const atB = Array.from(b, (y, j) =>
        [a[j]!, a[j + 3]!].reduce((sum, x) => sum + slope((at) => f(x, at) + f(number, at), y), 0),
      );
      assertClose(await gradients[1]!.data(), atB, 1e-5);
    });

  it("share the gradient between equal operands of max and min", async () => {
    const x = tensor(bench.backend, [1, 2]);
    const y = tensor(bench.backend, [1, 1]);
    const [atX, atY] = grad((a: Tensor, b: Tensor) => a.maximum(b).sum())(x, y);
    assert.deepEqual(
      [await atX!.toArray(), await atY!.toArray()],
      [
        [0.5, 1],
        [0.5, 0],
      ],
    );
    const [ofMax] = grad((a: Tensor) => a.max())(y);
    assert.deepEqual(await ofMax!.toArray(), [0.5, 0.5]);
  });

  it("share the gradient of f16 between more equal elements than f16 can count", async () => {
    const count = 2 ** 17;
    const x = zeros(bench.backend, [count], "f16");
    for (const f of [(a: Tensor) => a.max(), (a: Tensor) => a.min(), (a: Tensor) => a.mean()]) {
      const [gradient] = grad((a: Tensor) => f(a).mul(1024))(x);
      const values = await gradient!.cast("f32").data();
      assert.deepEqual([values[0], values[count - 1]], [2 ** -7, 2 ** -7]);
    }
  });

  for (const dtype of ["f32", "f16"] as const)
    it(`is NaN where max and min are, in ${dtype}`, async () => {
      const rows = [
        [1, Number.NaN, 3],
        [4, 4, 2],
        [Number.NaN, Number.NaN, Number.NaN],
      ];
      const none = [Number.NaN, Number.NaN, Number.NaN];
      const x = tensor(bench.backend, rows, { dtype });
      for (const [f, second] of [
        [(a: Tensor) => a.max(1), [-0.5, -0.5, 0]],
        [(a: Tensor) => a.min(1), [0, 0, -1]],
      ] as [(a: Tensor) => Tensor, number[]][]) {
        const [gradient] = grad((a: Tensor) => f(a).mul(-1).sum())(x);
        assert.deepEqual(await gradient!.toArray(), [none, second, none]);
      }
    });
});

describe("the rules of views, sums, products and indices", () => {
  /** f of one tensor, against central differences that the same backend computes, of functions without curvature to speak of. */
  const cases: Readonly<Record<string, (x: Tensor, y: Tensor) => Tensor>> = {
    reshape: (x, y) => x.reshape(3, 2).transpose().mul(y),
    permute: (x, y) => x.permute(1, 0).matmul(y),
    expand: (x, y) => x.at(0).expand(2, 3).mul(y),
    slice: (x, y) => x.slice(1, { start: 2, step: -2 }).mul(y.slice(1, [1])),
    place: (x, y) => x.pad([1, 0], [0, 1]).slice(0, [0, 2]).slice(1, [1]).mul(y),
    concatenate: (x, y) => concatenate([x, y, x], 1).square(),
    stack: (x, y) => stack([x, y]).square(),
    where: (x, y) => where(x.greater(y), x.mul(y), where(y.greater(0), 2, x)),
    cast: (x, y) => x.cast("bf16").cast("f32").mul(y),
    gather: (x, y) => x.take(index(y, [1, 1, 0]), 1).mul(y),
    takeAlong: (x, y) => x.takeAlong(index(y, [2, 0, 0, 1], [2, 2])).mul(y.slice(1, [1])),
    scatterAdd: (x, y) => x.scatterAdd(index(y, [2, 0, 2], [1, 3]), [2, 4]).square(),
    "reduce.sum": (x, y) => x.sum(0).mul(y),
    "reduce.mean": (x, y) => x.mean(1, { keepAxes: true }).mul(y),
    "reduce.max": (x, y) => x.max(1, { keepAxes: true }).mul(y),
    "reduce.min": (x, y) => x.min(0).mul(y),
    "reduce.prod": (x, y) => x.prod(0).mul(y).add(x.prod()),
    variance: (x, y) => x.variance(1, { keepAxes: true }).mul(y),
    "reduce.logSumExp": (x, y) =>
      x.logSumExp(1, { keepAxes: true }).mul(y).add(x.logSumExp(0)).add(x.logSumExp()),
    "scan.sum": (x, y) => x.cumulativeSum(1, { exclusive: true }).mul(y),
    matmul: (x, y) => x.matmul(y.transpose()).square(),
    batches: (x, y) =>
      x
        .reshape(2, 1, 1, 3)
        .matmul(stack([y.transpose(), y.transpose()]))
        .square(),
    "batch with one": (x, y) =>
      stack([x, x.mul(2)])
        .matmul(y.transpose())
        .square(),
    linear: (x, y) => x.linear(y.transpose(), y.at(0).slice(0, [0, 2])).square(),
    softmax: (x, y) => x.softmax(0).mul(y),
    logSoftmax: (x, y) => x.logSoftmax().mul(y),
    normalize: (x, y) => layerNorm(x, { weight: y.at(0), bias: y.at(1) }).mul(y),
    "rms norm": (x, y) => rmsNorm(x.mul(y), { weight: y.at(1), epsilon: 0.01 }).square(),
    "layer norm without weight": (x, y) => layerNorm(x).mul(y),
    attention: (x, y) =>
      attention(heads(x, y, 2), heads(y, x), heads(x, x), { causal: "lower-right" }).square(),
    "attention in a window": (x, y) =>
      attention(heads(x, y), heads(y, x), heads(x, x), { causal: true, window: 2, scale: 0.5 }).square(),
    "attention with a mask": (x, y) =>
      attention(heads(x, y, 2), heads(y, y), heads(x, x), {
        mask: index(x, [1, 1, 0, 1, 1, 1], [2, 3]).cast("u8"),
      }).square(),
    "attention with a mask of floats": (x, y) =>
      attention(heads(x, y), heads(y, y), heads(x, x), {
        mask: tensor(x.backend, [[0.5, -1, 0.25]]),
      }).square(),
    "attention, twice": (x, y) =>
      twice(x, (x) => attention(heads(x, y), heads(y, x), heads(x, y), { causal: true })),
    rope: (x, y) =>
      rope(x.reshape(1, 1, 3, 2), tables(y).cos(), tables(y).sin(), { start: 1 })
        .reshape(2, 3)
        .mul(y),
    softmaxGradient: (x, y) => twice(x, (x) => x.softmax(1).mul(y)),
    logSoftmaxGradient: (x, y) => twice(x, (x) => x.logSoftmax(1).mul(y)),
    conv2d: (x, y) =>
      conv2d(images(x, y), filter(x, y), x.at(0).slice(0, [0, 2]), {
        stride: [1, 2],
        padding: [1, 0, 1, 1],
      }).square(),
    "conv2d of channels last, in groups": (x, y) =>
      conv2d(images(x, y).permute(0, 2, 3, 1), filter(x, y).slice(1, [1]), x.at(0).slice(0, [1]), {
        ...{ layout: "NHWC", groups: 2, dilation: [2, 1], padding: [1, 1, 1, 0] },
      }).square(),
    conv2dInputGradient: (x, y) => transposedConv2d(images(x, y), filter(x, y), { stride: [2, 1] }).square(),
    conv2dFilterGradient: (x, y) => twice(x, (x) => conv2d(images(x, y), filter(x, y)).square()),
    pool2d: (x, y) => maxPool2d(images(x, y), [2, 2], { stride: [1, 1] }).square(),
    "mean pool": (x, y) =>
      meanPool2d(images(x, y), [2, 2], { padding: [1, 0, 0, 1], countPadding: true }).square(),
    resize2d: (x, y) =>
      resize2d(images(x, y), { kind: "bilinear", outputHeight: 4, outputWidth: 2 }).square(),
    embedding: (x, y) =>
      x
        .take(index(x, [1, 0, 1, 1]))
        .square()
        .sum(0)
        .mul(y),
    dropout: (x, y) => dropout(x.mul(y), 0.5, new Random(5)).square(),
    crossEntropy: (x, y) => crossEntropy(x.mul(y), index(x, [2, 0])),
    "linear of more axes": (x, y) => stack([x, y]).linear(y.transpose()).square(),
    elu: (x, y) => x.elu(0.5).mul(y),
    leakyRelu: (x, y) => x.leakyRelu().mul(y),
  };
  /** [1, 1 or 2, 2 or 3, 2] */
  const heads = (x: Tensor, y: Tensor, count = 1): Tensor =>
    count === 1 ? x.add(y.mul(0.5)).reshape(1, 1, 3, 2) : stack([x, y]).slice(2, [1]).reshape(1, 2, 2, 2);
  /** [1, 2, 3, 2] and [2, 2, 2, 2] */
  const images = (x: Tensor, y: Tensor): Tensor => stack([x, y]).reshape(1, 2, 3, 2);
  const filter = (x: Tensor, y: Tensor): Tensor =>
    concatenate([x.flatten(), y.flatten(), x.flatten().mul(0.25).slice(0, [2])]).reshape(2, 2, 2, 2);
  /** The sum of squares of a gradient. */
  const twice = (x: Tensor, f: (x: Tensor) => Tensor): Tensor =>
    grad((x: Tensor) => f(x).sum())(x)[0]!.square();
  const tables = (like: Tensor): Tensor => tensor(like.backend, [[0.1], [0.4], [0.9], [1.6], [2.5]]);
  const index = (like: Tensor, places: number[], shape = [places.length]): Tensor =>
    tensor(like.backend, places, { shape, dtype: "i32" });

  it("elu: finite where e^x is not", async () => {
    const [atX] = grad((x: Tensor) => x.elu(0.5).sum())(tensor(bench.backend, [1000, 0, -1000]));
    assert.deepEqual(await atX!.toArray(), [1, 0.5, 0]);
  });

  for (const dtype of ["f32", "f16"] as const)
    it(`reduce.logSumExp: weights that add up to 1 where the result is rounded, in ${dtype}`, async () => {
      const large = { f32: 1e6, f16: 1000 }[dtype];
      const tolerance = { f32: 1e-6, f16: 2 ** -10 }[dtype];
      const values = [large, large, 20, 20.5, large - 1, large, -large, 20];
      const x = tensor(bench.backend, values, { shape: [2, 2, 2], dtype });
      for (const axes of [undefined, [0], [1], [2], [0, 2], [2, 1], []]) {
        const [gradient] = grad((x: Tensor) => x.logSumExp(axes).mul(2).sum())(x);
        const isReduced = [0, 1, 2].map((axis) => axes === undefined || axes.includes(axis));
        const isTogether = (i: number, j: number): boolean =>
          isReduced.every((reduced, axis) => reduced || (((i ^ j) >> (2 - axis)) & 1) === 0);
        const expected = values.map(
          (value, i) =>
            2 / values.reduce((sum, other, j) => sum + (isTogether(i, j) ? Math.exp(other - value) : 0), 0),
        );
        assertClose(await gradient!.cast("f32").data(), expected, tolerance);
      }
    });

  for (const [name, f] of Object.entries(cases))
    it(`${name}: as central differences`, async () => {
      const { backend } = bench;
      const x = [0.5, -1.25, 2, 0.75, 1.5, -0.375];
      const y = [1.25, 0.625, -0.5, 2, -1.75, 0.875];
      const value = async (a: readonly number[], b: readonly number[]): Promise<number> => {
        const result = f(tensor(backend, a, { shape: [2, 3] }), tensor(backend, b, { shape: [2, 3] }));
        // Summed in double precision.
        return Array.from(await result.data()).reduce((sum, element) => sum + element, 0);
      };
      const gradients = grad((a: Tensor, b: Tensor) => f(a, b).sum())(
        tensor(backend, x, { shape: [2, 3] }),
        tensor(backend, y, { shape: [2, 3] }),
      );
      // bf16 has steps of 2^-8: a larger one, so that both ends are in it.
      const step = name === "cast" ? 2 ** -4 : 2 ** -7;
      const slope = async (i: number, of: "x" | "y"): Promise<number> => {
        const at = (offset: number) =>
          of === "x" ? value(x.with(i, x[i]! + offset), y) : value(x, y.with(i, y[i]! + offset));
        return ((await at(step)) - (await at(-step))) / (2 * step);
      };
      for (const [j, of] of (["x", "y"] as const).entries()) {
        const expected: number[] = [];
        for (let i = 0; i < 6; i++) expected.push(await slope(i, of));
        assertClose(await gradients[j]!.data(), expected, 1e-3);
      }
    });

  it("attention: by attentionGradient, or without it where the backend lacks it, to the same result", async () => {
    const { backend } = bench;
    const random = new Random(4);
    const q = random.normal(backend, [2, 4, 5, 3]);
    const [k, v] = [random.normal(backend, [2, 2, 6, 3]), random.normal(backend, [2, 2, 6, 3])];
    const mask = random.bernoulli(backend, [5, 6], 0.8);
    let calls = 0;
    const { supports, attentionGradient } = backend;
    const gradients = async (isThere: boolean): Promise<number[][]> => {
      Object.assign(backend, {
        supports: (...question: Parameters<typeof supports>) =>
          (isThere || question[0] !== "attentionGradient") && supports.apply(backend, question),
        attentionGradient: (args: Parameters<typeof attentionGradient>[0]) => {
          calls++;
          attentionGradient.call(backend, args);
        },
      });
      const found = grad((q: Tensor, k: Tensor, v: Tensor) =>
        attention(q, k, v, { causal: "lower-right", window: 4, scale: 0.7, mask }).square().sum(),
      )(q, k, v);
      return Promise.all(found.map(async (gradient) => Array.from(await gradient.data())));
    };
    try {
      const fused = await gradients(true);
      assert.equal(calls, 1);
      const composed = await gradients(false);
      assert.equal(calls, 1);
      for (const [i, row] of fused.entries()) assertClose(row, composed[i]!, 1e-5);
    } finally {
      Object.assign(backend, { supports, attentionGradient });
    }
  });

  it("are in one table, each of which is tested here or above", () => {
    const tested: readonly string[] = [
      ...floatUnaryKinds,
      ...arithmeticKinds,
      ...Object.keys(cases),
      "convert",
    ];
    for (const [name, rule] of Object.entries(rules)) if (rule !== undefined) assert.include(tested, name);
  });
});

describe("a tape", () => {
  it("gives closed forms: least squares", async () => {
    const { backend } = bench;
    const x = tensor(backend, [
      [1, 2],
      [3, 4],
      [5, 7],
    ]);
    const y = tensor(backend, [[1], [2], [4]]);
    const w = tensor(backend, [[0.5], [-0.25]]);
    const { value, gradients } = valueAndGrad((w: Tensor) => x.matmul(w).sub(y).square().sum())(w);
    // x w - y = [-1, -1.5, -3.25]
    assert.equal(await value.item(), 1 + 2.25 + 3.25 ** 2);
    assert.deepEqual(await gradients[0]!.toArray(), [[2 * (-1 - 4.5 - 16.25)], [2 * (-2 - 6 - 22.75)]]);
  });

  it("adds up the gradients of all uses of a tensor", async () => {
    const x = tensor(bench.backend, [2, 3]);
    const [g] = grad((x: Tensor) => x.mul(x).add(x).add(x.mul(x).mul(x)).sum())(x);
    assert.deepEqual(await g!.toArray(), [4 + 1 + 12, 6 + 1 + 27]);
  });

  it("tells of each gradient when it is final, before the rest of the way back", async () => {
    const { backend } = bench;
    const [a, b, c, unused] = [2, 3, 5, 7].map((value) => tensor(backend, [value]));
    using tape = new Tape([a!, b!, c!, unused!]);
    // c is used first and last: its gradient is final at the very end. b is used once, behind a.
    const result = tape.record(() => a!.mul(c!).square().mul(b!).mul(c!).sum());
    const order: number[] = [];
    const early: Promise<number>[] = [];
    const ready = (gradient: Tensor, index: number): void => {
      order.push(index);
      early[index] = gradient.item();
      // Places of several gradients are told apart, as others write to them.
      assert.notEqual(gradient.operand, undefined);
    };
    const gradients = tape.gradients(result, undefined, { ready });
    assert.deepEqual(order, [1, 0, 2, 3]);
    // a^2 c^3 b
    const expected = [2 * 2 * 125 * 3, 4 * 125, 3 * 4 * 25 * 3, 0];
    assert.deepEqual(await Promise.all(early), expected);
    assert.deepEqual(await Promise.all(gradients.map((gradient) => gradient.item())), expected);
  });

  it("can be used once, or more often if it is kept", async () => {
    const x = tensor(bench.backend, [1, 2]);
    const { liveAllocations } = bench.backend.memory();
    using tape = new Tape([x]);
    const y = tape.record(() => x.exp().sum());
    assert.equal(tape.length, 2);
    const [first] = tape.gradients(y, [x], { keep: true });
    const [second] = tape.gradients(y);
    assert.deepEqual(await second!.toArray(), await first!.toArray());
    throws("DISPOSED", /gradients: tape was used up by an earlier call.*keep: true/, () => tape.gradients(y));
    throws("DISPOSED", /record: tape was used up/, () => tape.record(() => x.exp()));
    for (const made of [y, first!, second!]) made.dispose();
    // The exponential alone is left for the garbage collector.
    assert.isAtMost(bench.backend.memory().liveAllocations, liveAllocations + 1);
  });

  it("records nothing without recording, nor of what is detached", async () => {
    const x = tensor(bench.backend, [1, 2]);
    const [g] = grad((x: Tensor) =>
      x
        .mul(withoutRecording(() => x.mul(3)))
        .add(x.detach().square())
        .sum(),
    )(x);
    assert.deepEqual(await g!.toArray(), [3, 6]);
    const [none] = grad((x: Tensor) => x.detach().sum())(x);
    assert.deepEqual(await none!.toArray(), [0, 0]);
  });

  it("records the gradients of another one: second derivatives", async () => {
    const x = tensor(bench.backend, [1, 2, -1.5]);
    const [second] = grad((x: Tensor) => grad((x: Tensor) => x.pow(3).sum())(x)[0]!.sum())(x);
    assert.deepEqual(await second!.toArray(), [6, 12, -9]);
  });

  it("refuses what has no derivative, and says why", () => {
    const { backend } = bench;
    const x = tensor(backend, [1, 2]);
    throws("INVALID_ARGUMENT", /of has shape \[2\]/, () => grad((x: Tensor) => x.exp())(x));
    throws("INVALID_ARGUMENT", /tensors\[0\] is Tensor i32 \[1\]/, () =>
      grad((x: Tensor) => x.sum())(ones(backend, [1], "i32")),
    );
    throws("UNSUPPORTED", /scan\.prod: has no gradient/, () => grad((x: Tensor) => x.scan("prod").sum())(x));
    const [rows, table] = [ones(backend, [1, 1, 1, 2]), ones(backend, [1, 1])];
    for (const place of [1, 2])
      throws(
        "UNSUPPORTED",
        new RegExp(`rope: inputs\\[${place}\\] is on the tape, and has no gradient`),
        () =>
          grad((watched: Tensor) =>
            rope(rows, place === 1 ? watched : table, place === 2 ? watched : table).sum(),
          )(ones(backend, [1, 1])),
      );
    throws("INVALID_ARGUMENT", /at\[0\] Tensor f32 \[2\] on cpu is not on the tape/, () => {
      const tape = new Tape([x]);
      tape.gradients(
        tape.record(() => x.sum()),
        [ones(backend, [2])],
      );
    });
    throws("INVALID_ARGUMENT", /inputs\[0\] is no tensor/, () => grad((n: number) => x.mul(n).sum())(3));
  });
});
