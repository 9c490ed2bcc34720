// Tags: kernels, pure
import { unaryFunctions } from "@backplane/conformance/functions";
import {
  decodeFloat16,
  type FloatUnaryKind,
  float16FromBits,
  float16ToBits,
  floatUnaryKinds,
} from "@backplane/core";
import { expect } from "chai";
import { unary } from "#src/kernels/unary/unary.js";
import { asStored, types } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers, sweep, ulpDistance } from "./numbers.js";

/** Largest error in ULP over all of f32, subnormal results included. */
const bounds: Readonly<Record<FloatUnaryKind, number>> = {
  relu: 0,
  relu6: 0,
  sigmoid: 2.5,
  tanh: 2.6,
  exp: 1,
  expm1: 1.75,
  log: 1,
  sqrt: 0.5,
  rsqrt: 1.5,
  reciprocal: 0.5,
  abs: 0,
  neg: 0,
  sin: 1.6,
  cos: 1.6,
  floor: 0,
  ceil: 0,
  round: 0,
  sign: 0,
  erf: 1.5,
  gelu: 7,
  geluTanh: 3.5,
  silu: 3.5,
  softplus: 2,
  ...{ square: 0.5, trunc: 0, exp2: 1, log1p: 2, log2: 2, tan: 3, asin: 3, acos: 3, atan: 3 },
  ...{ sinh: 3, cosh: 3, asinh: 3, acosh: 3, atanh: 3 },
};

describeEitherWay("unary kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(unary.kernels, options);
  });

  const run = (kind: FloatUnaryKind, input: Float32Array): Float32Array => {
    const from = bench.upload(input);
    const to = bench.alloc(from.byteLength);
    bench.run(unary.plan({ kind, dtype: "f32", n: input.length, input: from, output: to }, bench.context));
    return bench.float32(to);
  };

  it("exp of a number has the same bits beside any others: hidden, with a subnormal result, too large, or none", () => {
    const numbers = [
      ...[Number.NEGATIVE_INFINITY, -1e30, -104.1, -103.98, -103.9, -95, -87.34, -87, -1, 0],
      ...[1e-30, 3, 88.7, 88.8, 1e30, Number.POSITIVE_INFINITY, Number.NaN],
    ].map(Math.fround);
    const alone = numbers.map((x) => run("exp", Float32Array.of(x, x, x, x))[0]!);
    numbers.forEach((x, i) => {
      expect(ulpDistance(alone[i]!, Math.exp(x)), `exp(${x})`).to.be.at.most(1);
    });
    const pairs = numbers.flatMap((_, i) => numbers.map((_, j) => [i, j] as const));
    const together = run(
      "exp",
      Float32Array.from(pairs.flatMap(([i, j]) => [i, j, j, i].map((at) => numbers[at]!))),
    );
    pairs.forEach(([i, j], pair) => {
      expect([...together.subarray(4 * pair, 4 * pair + 4)]).to.deep.equal(
        [i, j, j, i].map((at) => alone[at]),
      );
    });
  });

  for (const kind of floatUnaryKinds) {
    it(`${kind} stays within ${bounds[kind]} ULP over all of f32`, () => {
      const input = sweep(1);
      const output = run(kind, input);
      let worst = { distance: -1, x: 0, got: 0, expected: 0 };
      input.forEach((x, i) => {
        const expected = unaryFunctions[kind](x);
        const got = output[i]!;
        const distance = ulpDistance(got, expected);
        if (!(distance <= worst.distance)) worst = { distance, x, got, expected };
        if (expected === 0 && got === 0)
          expect(Object.is(got, expected), `${kind}(${x}) is a zero of the wrong sign`).to.equal(true);
      });
      expect(worst.distance, JSON.stringify(worst)).to.be.at.most(bounds[kind]);
    });

    it(`${kind} of f16 is the f32 result, rounded once`, () => {
      const halves = Uint16Array.from({ length: 65536 }, (_, i) => i);
      const wide = decodeFloat16(halves);
      const expected = run(kind, wide);
      const from = bench.upload(halves);
      const to = bench.alloc(from.byteLength);
      bench.run(unary.plan({ kind, dtype: "f16", n: 65536, input: from, output: to }, bench.context));
      const got = bench.uint16(to);
      for (let i = 0; i < 65536; i++) {
        const value = expected[i]!;
        const same = Number.isNaN(value)
          ? Number.isNaN(float16FromBits(got[i]!))
          : got[i] === float16ToBits(value);
        if (!same) expect.fail(`${kind}(${wide[i]}): ${float16FromBits(got[i]!)}, not ${value}`);
      }
    });
  }

  it("writes exactly n elements, at any offset, in place or not", () => {
    const random = randomNumbers(3);
    for (const kind of ["neg", "exp"] as const)
      for (const [dtype, bytes, tolerance] of [
        ["f32", 4, 1e-6],
        ["f16", 2, 1e-3],
      ] as const)
        for (const inPlace of [false, true])
          for (let n = 1; n <= 67; n++) {
            const offset = bytes * (n % 5);
            const numbers = Float32Array.from({ length: n }, () => random() * 4 - 2);
            const data = types[dtype].encode(numbers);
            const whole = bench.alloc(n * bytes + 64);
            const input = inPlace
              ? { ...whole, byteOffset: offset, byteLength: n * bytes }
              : bench.upload(data);
            const output = { ...whole, byteOffset: offset, byteLength: n * bytes };
            const start = whole.memory.byteOffset + offset;
            if (inPlace)
              new Uint8Array(bench.memory.buffer).set(new Uint8Array(data.buffer, 0, n * bytes), start);
            bench.run(unary.plan({ kind, dtype, n, input, output }, bench.context));
            const bytesAfter = bench.bytes(whole);
            const label = `${kind} ${dtype} n=${n} inPlace=${inPlace}`;
            bytesAfter.forEach((byte, i) => {
              if (i < offset || i >= offset + n * bytes) expect(byte, `${label} byte ${i}`).to.equal(0xff);
            });
            const written = bytesAfter.slice(offset, offset + n * bytes).buffer;
            const got = types[dtype].decode(written);
            const source = asStored(dtype, numbers);
            source.forEach((x, i) => {
              const expected = unaryFunctions[kind](x);
              expect(got[i], `${label} element ${i}`).to.be.closeTo(expected, Math.abs(expected) * tolerance);
            });
          }
  });

  it("gives the same bits in every chunk and lane", () => {
    const n = 3 * 8192 + 5;
    const random = randomNumbers(5);
    const input = Float32Array.from({ length: n }, () => random() * 10 - 5);
    const shifted = input.slice(1);
    const whole = run("gelu", input);
    expect(
      Buffer.compare(Buffer.from(run("gelu", shifted).buffer), Buffer.from(whole.slice(1).buffer)),
    ).to.equal(0);
  });

  it("tanh is odd, rises in steps of 10^-4 from 4 on, and is 1 where that is nearest, never more", () => {
    const input = Float32Array.from({ length: 100_000 }, (_, i) => 4 + i / 10_000);
    const output = run("tanh", input);
    expect(
      run(
        "tanh",
        input.map((x) => -x),
      ).map((y) => -y),
    ).to.deep.equal(output);
    expect(output.every((y, i) => i === 0 || y >= output[i - 1]!)).to.equal(true);
    expect(output.every((y, i) => y <= 1 && (input[i]! < 9.0109 || y === 1))).to.equal(true);
  });

  for (const kind of ["sin", "cos"] as const) {
    it(`${kind} is as accurate near the first 5000 multiples of pi / 2, on both sides of where their parts change`, () => {
      const input = Float32Array.from({ length: 5 * 5000 }, (_, i) => {
        const nearest = new Float32Array([(Math.floor(i / 5) * Math.PI) / 2]);
        new Int32Array(nearest.buffer)[0]! += nearest[0] === 0 ? i % 5 : (i % 5) - 2;
        return nearest[0]!;
      });
      run(kind, input).forEach((got, i) => {
        const distance = ulpDistance(got, unaryFunctions[kind](input[i]!));
        expect(distance, `${kind}(${input[i]}) = ${got}`).to.be.at.most(bounds[kind]);
      });
    });
  }

  it("sin and cos keep their bound where most of the multiple of pi / 2 cancels", () => {
    for (const [kind, x] of [
      ["sin", 2023.1934814453125],
      ["cos", 2753.57470703125],
    ] as const)
      for (const sign of [1, -1]) {
        const [got] = run(kind, Float32Array.of(sign * x));
        const distance = ulpDistance(got!, unaryFunctions[kind](sign * x));
        expect(distance, `${kind}(${sign * x}) = ${got}`).to.be.at.most(bounds[kind]);
      }
  });

  for (const kind of floatUnaryKinds) {
    it(`${kind} of a number does not depend on the numbers beside it`, () => {
      const random = randomNumbers(11);
      // Every second vector has positive numbers only, as logarithms usually get them.
      const ordinary = Float32Array.from({ length: 4096 }, (_, i) =>
        i % 8 < 4 ? random() * 12 : random() * 24 - 12,
      );
      // Every second number is a case of its own in some function.
      const rare = [200, -100, 1e6, Number.NaN, -14, 0, 88, 1e-40, 2 ** 127, -1, Number.NEGATIVE_INFINITY];
      const mixed = Float32Array.from({ length: 8192 }, (_, i) =>
        i % 2 === 0 ? ordinary[i / 2]! : rare[((i - 1) / 2) % rare.length]!,
      );
      const alone = run(kind, ordinary);
      const beside = run(kind, mixed).filter((_, i) => i % 2 === 0);
      expect(Buffer.compare(Buffer.from(beside.buffer), Buffer.from(alone.buffer))).to.equal(0);
    });
  }
});
