import { float16FromBits, float16ToBits } from "@backplane/core";
import { expect } from "chai";
import { draw, random } from "#src/data.js";
import { halfBits } from "#src/elements.js";
import { unaryFunctions } from "#src/functions.js";
import { createReferenceBackend } from "#src/index.js";
import { attention } from "#src/ops/attention/formula.js";
import { conv2d } from "#src/ops/conv2d/formula.js";
import { gemm } from "#src/ops/gemm/formula.js";
import { offsets } from "#src/ops/places.js";
import { reduce } from "#src/ops/reduce/formula.js";
import { collect, execute, verify } from "#src/workspace.js";

/** Answers worked out by hand or taken from tables: who checks the one that checks? */
describe("The formulas that backends are measured against", () => {
  it("gemm: a transposed product with gaps, alpha and beta", () => {
    // op(A) = [[1, 2], [3, 4]] stored transposed with lda 3; B = [[5, 6], [7, 8]]; C starts as ones.
    const a = Float64Array.of(1, 3, Number.NaN, 2, 4);
    const b = Float64Array.of(5, 6, 7, 8);
    const c = Float64Array.of(1, 1, Number.NaN, 1, 1);
    const shape = { m: 2, n: 2, k: 2, alpha: 2, beta: 10, transA: true, transB: false, batch: 1 };
    const strides = { lda: 3, ldb: 2, ldc: 3, strideA: 0, strideB: 0, strideC: 0 };
    const { places, values, magnitudes } = collect((emit) => gemm({ ...shape, ...strides }, a, b, c, emit));
    expect(places).to.deep.equal([0, 1, 3, 4]);
    expect(values).to.deep.equal([48, 54, 96, 110]);
    expect(magnitudes).to.deep.equal([48, 54, 96, 110]);
  });

  it("conv2d: padding at the top left only, stride 2, bias", () => {
    // 1 2 3      with a row and a column of zeros before it, windows of 2 x 2 at stride 2,
    // 4 5 6      filter 1 10 / 100 1000
    // 7 8 9
    const shape = {
      layout: "NCHW" as const,
      ...{ batch: 1, inChannels: 1, height: 3, width: 3, outChannels: 1, kernelHeight: 2, kernelWidth: 2 },
      ...{ outHeight: 2, outWidth: 2, strideY: 2, strideX: 2, top: 1, left: 1, bottom: 0, right: 0 },
      ...{ dilationY: 1, dilationX: 1, groups: 1 },
    };
    const input = Float64Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9);
    const filter = Float64Array.of(1, 10, 100, 1000);
    const { values } = collect((emit) => conv2d(shape, input, filter, Float64Array.of(0.5), emit));
    expect(values).to.deep.equal([1000.5, 3200.5, 7040.5, 9865.5]);
  });

  it("attention: two keys, log 3 apart, with and without a mask", () => {
    const shape = { batch: 1, heads: 1, kvHeads: 1, queryLength: 2, keyLength: 2, headSize: 1, scale: 1 };
    const q = Float64Array.of(1, 0);
    const k = Float64Array.of(0, Math.log(3));
    const v = Float64Array.of(4, 8);
    const results = (visible: number) =>
      collect((emit) => attention({ ...shape, visible }, q, k, v, emit)).values;
    expect(results(2)[0]).to.be.closeTo(7, 1e-12);
    expect(results(2)[1]).to.be.closeTo(6, 1e-12);
    expect(results(0)[0]).to.equal(4);
    expect(results(-1)).to.deep.equal([0, 4]);
  });

  it("reduce: over the first and last of three axes", () => {
    expect(
      offsets([
        { extent: 2, stride: 6 },
        { extent: 2, stride: 1 },
      ]),
    ).to.deep.equal([0, 1, 6, 7]);
    const kept = [{ extent: 3, stride: 2 }];
    const reduced = [
      { extent: 2, stride: 6 },
      { extent: 2, stride: 1 },
    ];
    const input = Float64Array.from({ length: 12 }, (_, i) => i);
    const results = (kind: "sum" | "mean" | "max") =>
      collect((emit) => reduce({ dtype: "f32", kind, kept, reduced }, input, emit));
    expect(results("sum").values).to.deep.equal([14, 22, 30]);
    expect(results("mean").values).to.deep.equal([3.5, 5.5, 7.5]);
    expect(results("max").values).to.deep.equal([7, 9, 11]);
  });

  it("functions without a counterpart in Math, against tables (DLMF 7.23, Abramowitz and Stegun 7.1)", () => {
    const close = (got: number, expected: number) =>
      expect(Math.abs(got / expected - 1), `${got} is near ${expected}`).to.be.below(1e-13);
    close(unaryFunctions.erf(0.5), 0.5204998778130465);
    close(unaryFunctions.erf(1), 0.8427007929497149);
    close(unaryFunctions.erf(-2), -0.9953222650189527);
    close(unaryFunctions.erf(1e-6), 1.12837916709514e-6);
    // x / 2 erfc(-x / sqrt(2)) in the far tail: erfc(5) = 1.5374597944280349e-12.
    close(unaryFunctions.gelu(-5 * Math.SQRT2), (-5 * Math.SQRT2 * 1.5374597944280349e-12) / 2);
    close(unaryFunctions.softplus(-40), Math.exp(-40));
    close(unaryFunctions.silu(-1), -0.2689414213699951);
    expect([0.5, 1.5, 2.5, -0.5, -1.5, 2 ** 52 + 1].map(unaryFunctions.round)).to.deep.equal([
      0,
      2,
      2,
      -0,
      -2,
      2 ** 52 + 1,
    ]);
  });

  it("whole f16 numbers: the fast ways agree with the exact ones", () => {
    for (let bits = 0; bits < 2 ** 16; bits++) {
      const value = float16FromBits(bits);
      if (!Number.isNaN(value)) expect(halfBits(value)).to.equal(bits);
    }
    const next = random(3);
    for (let i = 0; i < 20_000; i++) {
      const value = (2 * next() - 1) * 2 ** (45 * next() - 27);
      for (const x of [value, Math.fround(value)]) expect(halfBits(x), String(x)).to.equal(float16ToBits(x));
    }
    for (const x of [0, -0, Number.NaN, Number.POSITIVE_INFINITY, 65504, 65519.99, 65520, 2 ** -25, 2048.5])
      for (const signed of [x, -x]) expect(halfBits(signed), String(signed)).to.equal(float16ToBits(signed));
    for (const distribution of ["uniform", "normal", "wide", "cancelling"] as const)
      for (const value of draw(distribution, 500, 7, "f16"))
        expect(float16FromBits(float16ToBits(value))).to.equal(value);
  });
});

describe("Checking a result", () => {
  const expected = { places: [0, 1], values: [1, 2], magnitudes: [1, 2] };

  it("fails for NaN, whatever the tolerance", () => {
    const check = () => verify(Float64Array.of(1, Number.NaN), expected, () => Number.MAX_VALUE);
    expect(check).to.throw(/result 1 .* got NaN, expected 2/);
  });

  it("fails for a NaN tolerance and for an infinite result", () => {
    expect(() => verify(Float64Array.of(1, 2.5), expected, () => Number.NaN)).to.throw(/1 of 2 results/);
    expect(() => verify(Float64Array.of(1, Number.POSITIVE_INFINITY), expected, () => 1e300)).to.throw(
      /Infinity/,
    );
  });

  it("says how much of the tolerance was used", () => {
    expect(verify(Float64Array.of(1, 2.5), expected, () => 1)).to.equal(0.5);
  });

  for (const { damage, at, message } of [
    { damage: "before the output", at: 11, message: /wrote 1 elements before the start of output/ },
    { damage: "after the output", at: 16, message: /wrote 2 elements past the end of output/ },
    { damage: "in a gap of the output", at: 13, message: /wrote into a gap of output, at element 1/ },
    { damage: "to the input", at: 3, message: /changed its input input at element 1/ },
    { damage: "before the input", at: 0, message: /wrote 2 elements before the start of input/ },
  ])
    it(`notices damage ${damage}`, async () => {
      const backend = createReferenceBackend();
      await backend.init();
      const run = execute({
        ...{ backend, dtype: "f32", output: "output", written: [0, 2] },
        placement: { before: [2, 2], shared: true },
        // input 2..4 and its guard to 9, then output from 12 to 14 and its guard.
        operands: { input: Float64Array.of(1, 2, 3), output: new Float64Array(3).fill(Number.NaN) },
        call: ({ output }) => backend.fill({ handle: output.handle, byteOffset: 4 * at }, 0, 1),
      });
      const failure = await run.then(
        () => undefined,
        (error: Error) => error,
      );
      expect(failure?.message).to.match(message);
      expect(backend.memory().liveAllocations).to.equal(0);
      await backend.dispose();
    });
});
