// Tags: kernels, pure
import type { ArithmeticKind, UnaryKind } from "@backplane/core";
import { assert } from "chai";
import { withDevice } from "./support.js";

const nan = 0x7fc00000;
const infinity = 0x7f800000;
const one = 0x3f800000;
const negative = 0x80000000;
/** Subnormal numbers: the least, and one of middling size. */
const [least, subnormal] = [1, 0x00400000];

/**
 * What kernels see to by the bits of their arguments, so that it holds whatever an adapter makes of NaN,
 * infinities, subnormal numbers and the sign of zero. All numbers are given by their bits.
 */
describe("webgpu special values", () => {
  const device = withDevice();

  async function unary(kind: UnaryKind, bits: readonly number[]): Promise<number[]> {
    const n = bits.length;
    const memory = device().upload(new Uint8Array(Uint32Array.from(bits).buffer));
    const region = { memory, byteOffset: 0, byteLength: 4 * n };
    device().run("unary", { dtype: "f32", kind, n, input: region, output: region });
    return [...new Uint32Array((await device().download(memory, 0, 4 * n)).buffer)];
  }

  async function binary(
    kind: ArithmeticKind,
    pairs: readonly (readonly [number, number])[],
  ): Promise<number[]> {
    const n = pairs.length;
    const [a, b] = [0, 1].map((side) => {
      const memory = device().upload(new Uint8Array(Uint32Array.from(pairs, (pair) => pair[side]!).buffer));
      return { memory, byteOffset: 0, byteLength: 4 * n };
    });
    const input = { a: { region: a!, strides: [1] }, b: { region: b!, strides: [1] } };
    device().run("binary", { dtype: "f32", kind, shape: [n], n, ...input, output: a! });
    return [...new Uint32Array((await device().download(a!.memory, 0, 4 * n)).buffer)];
  }

  const isNaNBits = (bits: number): boolean => (bits & 0x7fffffff) >>> 0 > infinity;

  const withNaN: readonly UnaryKind[] = [
    ...(["relu", "relu6", "abs", "neg", "sign", "exp", "log", "sigmoid", "tanh"] as const),
    ...(["sin", "cos", "erf", "gelu", "geluTanh", "silu", "softplus"] as const),
  ];
  for (const kind of withNaN)
    it(`${kind} gives NaN for NaN, and for nothing else`, async () => {
      const numbers = [0, one, infinity - 1, ...(kind === "sin" || kind === "cos" ? [] : [infinity])];
      const results = await unary(kind, [nan, negative | nan, infinity + 1, ...numbers]);
      for (const [i, bits] of results.entries())
        assert.equal(isNaNBits(bits), i < 3, `result ${i} is ${bits.toString(16)}`);
    });

  it("logSumExp of nothing but -Infinity is that, and of some the same as of the others", async () => {
    const rows = [negative | infinity, negative | infinity, negative | infinity, one].map(
      (bits) => bits >>> 0,
    );
    for (const [kept, reduced] of [
      [2, 1],
      [1, 2],
    ]) {
      const input = device().place(new Float32Array(Uint32Array.from(rows).buffer), "f32");
      const output = device().place([0, 0], "f32");
      const axes = {
        kept: [{ extent: 2, stride: kept! }],
        reduced: [{ extent: 2, stride: reduced! }],
        ...{ outputCount: 2, reducedCount: 2 },
      };
      device().run("reduce", { dtype: "f32", kind: "logSumExp", ...axes, input, output });
      const words = new Uint32Array((await device().download(output.memory, 0, 8)).buffer);
      assert.deepEqual(Array.from(words), [(negative | infinity) >>> 0, one]);
    }
  });

  it("logSumExp of many keeps infinities, NaN and numbers at the ends of f32, wherever they are", async () => {
    const bitsOf = (x: number) => new Uint32Array(Float32Array.of(x).buffer)[0]!;
    const [lowest, largest] = [bitsOf(-3.4028234663852886e38), bitsOf(3.4028234663852886e38)];
    const nothing = (negative | infinity) >>> 0;
    /** What all elements of a row are but for a few, those, and the result. */
    const rows: readonly (readonly [number, readonly number[], number | "NaN"])[] = [
      ...([
        [nothing, [], nothing],
        [nothing, [lowest], lowest],
        [nothing, [one], one],
        [nothing, [largest], largest],
        [nothing, [infinity], infinity],
        [lowest, [largest], largest],
        [lowest, [infinity, largest], infinity],
        [0, [bitsOf(200)], bitsOf(200)],
        [bitsOf(-200), [0], 0],
      ] as const),
      ...([
        [0, [infinity, nothing], infinity],
        [largest, [infinity], infinity],
        [nothing, [nan], "NaN"],
        [nothing, [(negative | nan) >>> 0], "NaN"],
        [infinity, [infinity + 1], "NaN"],
        [0, [nothing, infinity, nan], "NaN"],
        [largest, [(negative | nan) >>> 0], "NaN"],
      ] as const),
    ];
    for (const [length, along] of [3, 8, 100, 256, 4099, 40_000].flatMap((n) => [
      [n, "rows"] as const,
      [n, "columns"] as const,
    ])) {
      const words = new Uint32Array(rows.length * length);
      const at = (row: number, place: number) =>
        along === "rows" ? row * length + place : place * rows.length + row;
      for (const [row, [most, few]] of rows.entries()) {
        for (let place = 0; place < length; place++) words[at(row, place)] = most;
        for (const [i, bits] of few.entries())
          words[at(row, (Math.floor((length * (row + 1)) / 17) + i) % length)] = bits;
      }
      const input = device().place(new Float32Array(words.buffer), "f32");
      const output = device().place(new Float32Array(rows.length), "f32");
      device().run("reduce", {
        ...{ dtype: "f32", kind: "logSumExp", outputCount: rows.length, reducedCount: length },
        kept: [{ extent: rows.length, stride: along === "rows" ? length : 1 }],
        reduced: [{ extent: length, stride: along === "rows" ? 1 : rows.length }],
        ...{ input, output },
      });
      const got = new Uint32Array((await device().download(output.memory, 0, 4 * rows.length)).buffer);
      for (const [row, [, , wanted]] of rows.entries())
        if (wanted === "NaN") assert.isTrue(isNaNBits(got[row]!), `${along} of ${length}, row ${row}`);
        else assert.equal(got[row], wanted, `${along} of ${length}, row ${row}`);
      for (const { memory } of [input, output]) device().driver.free(memory);
    }
  });

  it("isNaN, isInfinite and isFinite test bits", async () => {
    const bits = [0, least, subnormal, one, infinity - 1, infinity, infinity + 1, nan].flatMap((value) => [
      value,
      (negative | value) >>> 0,
    ]);
    for (const [kind, wanted] of [
      ["isNaN", (size: number) => size > infinity],
      ["isInfinite", (size: number) => size === infinity],
      ["isFinite", (size: number) => size < infinity],
    ] as const) {
      const n = bits.length;
      const memory = device().upload(new Uint8Array(Uint32Array.from(bits).buffer));
      const input = { memory, byteOffset: 0, byteLength: 4 * n };
      for (const byteOffset of [0, 3]) {
        const results = device().upload(new Uint8Array(n + 8).fill(7));
        device().run("unary", {
          ...{ dtype: "f32", kind, n, input },
          output: { memory: results, byteOffset, byteLength: n },
        });
        const expected = new Uint8Array(n + 8).fill(7);
        expected.set(
          bits.map((value) => Number(wanted(value & 0x7fffffff))),
          byteOffset,
        );
        assert.deepEqual(await device().download(results, 0, n + 8), expected, `${kind} at ${byteOffset}`);
      }
    }
  });

  it("relu, abs, neg and sign keep subnormal numbers and zeros as they are", async () => {
    const numbers = [0, least, subnormal, one, infinity].flatMap((bits) => [bits, (negative | bits) >>> 0]);
    const sizes = numbers.map((bits) => bits & 0x7fffffff);
    assert.deepEqual(await unary("abs", numbers), sizes);
    assert.deepEqual(
      await unary("neg", numbers),
      numbers.map((bits) => (bits ^ negative) >>> 0),
    );
    assert.deepEqual(
      await unary("relu", numbers),
      numbers.map((bits) => (bits >= negative ? 0 : bits)),
    );
    assert.deepEqual(
      await unary("sign", numbers),
      numbers.map((bits) => (bits === 0 || bits === negative ? bits : ((bits & negative) | one) >>> 0)),
    );
  });

  it("tanh and sin keep the sign of zero, log reads subnormal numbers, and all have their limits", async () => {
    const sides = (bits: number): number[] => [bits, (negative | bits) >>> 0];
    assert.deepEqual(
      await unary("tanh", [...sides(0), ...sides(infinity)]),
      [...sides(0), ...sides(one)],
      "tanh",
    );
    assert.deepEqual(await unary("sin", sides(0)), sides(0), "sin");
    const [atZero, atInfinity, atLeast, ofNegative] = await unary("log", [
      0,
      infinity,
      least,
      negative | one,
    ]);
    assert.equal(atZero, (negative | infinity) >>> 0, "log(0)");
    assert.equal(atInfinity, infinity, "log(infinity)");
    assert.isTrue(isNaNBits(ofNegative!), "log(-1)");
    const [number] = new Float32Array(Uint32Array.of(atLeast!).buffer);
    assert.closeTo(number!, Math.log(2 ** -149), 1e-5, "log of the least number");
  });

  it("gelu, geluTanh and silu end in -0", async () => {
    for (const kind of ["gelu", "geluTanh", "silu"] as const)
      assert.deepEqual(
        await unary(kind, [infinity, (negative | infinity) >>> 0, 0xff7fffff]),
        [infinity, negative, negative],
        kind,
      );
  });

  it("max and min order all numbers, and keep NaN from either side", async () => {
    const ascending = [
      ...[infinity, one, subnormal, least, 0].map((bits) => (negative | bits) >>> 0),
      ...[0, least, subnormal, one, infinity],
    ];
    const pairs = ascending.flatMap((a) => ascending.map((b) => [a, b] as const));
    const larger = pairs.map(([a, b]) => ascending[Math.max(ascending.indexOf(a), ascending.indexOf(b))]);
    const smaller = pairs.map(([a, b]) => ascending[Math.min(ascending.indexOf(a), ascending.indexOf(b))]);
    assert.deepEqual(await binary("max", pairs), larger as number[]);
    assert.deepEqual(await binary("min", pairs), smaller as number[]);
    for (const kind of ["max", "min"] as const)
      for (const bits of await binary(kind, [
        [nan, one],
        [one, nan],
        [negative | nan, infinity],
        [negative | infinity, negative | nan],
      ]))
        assert.isTrue(isNaNBits(bits), `${kind} gave ${bits.toString(16)}`);
  });

  it("pow has its limits, and NaN where it is not defined", async () => {
    const [two, half, three] = [0x40000000, 0x3f000000, 0x40400000];
    const cases: readonly (readonly [a: number, b: number, result: number])[] = [
      [two, infinity, infinity],
      [half, infinity, 0],
      [two, negative | infinity, 0],
      [half, negative | infinity, infinity],
      [infinity, half, infinity],
      [infinity, negative | half, 0],
      [negative | infinity, three, negative | infinity],
      [negative | infinity, negative | three, negative],
      [negative | infinity, half, infinity],
      [negative, three, negative],
      [0, negative | half, infinity],
      [nan, 0, one],
      [nan, two, nan],
      [two, nan, nan],
      [negative | two, half, nan],
      [two, 0x7f7fffff, infinity],
      [two, 0xff7fffff, 0],
    ];
    const results = await binary(
      "pow",
      cases.map(([a, b]) => [a, b]),
    );
    for (const [i, [a, b, expected]] of cases.entries()) {
      const label = `${(a >>> 0).toString(16)} to the ${(b >>> 0).toString(16)} is ${results[i]!.toString(16)}`;
      if (expected === nan) assert.isTrue(isNaNBits(results[i]!), label);
      else assert.equal(results[i], expected >>> 0, label);
    }
  });
});
