import { type FloatType, inexactBinaryKinds, type Numerics, type UnitsRange } from "@backplane/core";
import { assert } from "chai";
import { expectedOf, oracleUnits, unitsOff, unitsTolerance } from "#src/accuracy.js";
import { binaryFunctions } from "#src/functions.js";
import { stratified, stratifiedPairs } from "#src/laws/accuracy-arguments.js";

const kept: Numerics = {
  ...{ nan: "kept", infinity: "kept", subnormals: "kept", signedZero: "kept" },
  ...{ rounding: "nearest-even", deterministic: true },
};
const modest: Numerics = { ...kept, infinity: "unspecified", subnormals: "flushed" };

describe("Declared units", () => {
  it("are units of f32, and half a unit of f16 on top in f16", () => {
    const slack = 1 + oracleUnits;
    assert.equal(unitsTolerance(1, 1, "f32", kept), 2 ** -23 * slack);
    assert.equal(unitsTolerance(1, -3.9, "f32", kept), 2 ** -22 * slack);
    assert.equal(unitsTolerance(1, 1, "f16", kept), 2 ** -11 + 2 ** -23 * slack);
    assert.equal(unitsTolerance(1, 2 ** -20, "f16", kept), 2 ** -25 + 2 ** -43 * slack, "subnormal in f16");
    assert.equal(unitsTolerance(1, 2 ** -140, "f32", kept), 2 ** -149 * slack, "subnormal in f32");
  });

  it("let subnormal results be zero where these are flushed, and no others", () => {
    assert.isAtLeast(unitsTolerance(1, 2 ** -127, "f32", modest), 2 ** -127);
    assert.isAtLeast(unitsTolerance(1, 2 ** -126, "f32", modest), 2 ** -126, "a unit below, it is subnormal");
    assert.isBelow(unitsTolerance(1, 2 ** -126 + 2 ** -147, "f32", modest), 2 ** -148);
    assert.isAtLeast(unitsTolerance(1, 2 ** -15, "f16", modest), 2 ** -15);
    assert.isBelow(unitsTolerance(1, 2 ** -14 + 2 ** -23, "f16", modest), 2 ** -24);
    assert.isUndefined(unitsOff(0, 2 ** -127, modest));
    assert.equal(unitsOff(0, 2 ** -127, kept), 2 ** 22);
    assert.equal(unitsOff(0, 2 ** -125, modest), 2 ** 23);
    assert.equal(unitsOff(Number.NaN, 1, modest), Number.POSITIVE_INFINITY);
  });

  it("end in infinities where these are kept, and anywhere else beyond the largest number", () => {
    const [largest, infinity] = [(2 - 2 ** -23) * 2 ** 127, Number.POSITIVE_INFINITY];
    const expected = (got: number, y: number, numerics: Numerics, dtype: FloatType = "f32") =>
      expectedOf(got, y, unitsTolerance(2, y, dtype, numerics), dtype, numerics);
    assert.equal(expected(1, 1e30, kept), 1e30);
    assert.equal(expected(largest, 1e39, kept), infinity);
    assert.equal(expected(-largest, -1e39, kept), -infinity);
    assert.isUndefined(expected(largest, 1e39, modest));
    // Two units may lead over the end, and back.
    assert.equal(expected(infinity, largest, kept), infinity);
    assert.equal(expected(largest, largest, kept), largest);
    assert.equal(expected(-infinity, largest, kept), largest, "of the other sign");
    assert.equal(expected(infinity, 0.9 * largest, kept), 0.9 * largest);
    assert.equal(expected(65504, 65600, kept, "f16"), infinity);
    assert.equal(expected(infinity, 65530, kept, "f16"), infinity);
    assert.equal(expected(65504, 65510, kept, "f16"), 65510);
    assert.isUndefined(expected(5, Number.NaN, kept));
    assert.equal(expected(5, infinity, kept), infinity, "a pole");
  });
});

describe("Arguments of every exponent", () => {
  const ends: readonly UnitsRange[] = [{ below: -0.37, units: 1 }, { below: 6000, units: 1 }, { units: 2 }];
  for (const [dtype, lowest, highest] of [
    ["f32", -126, 127],
    ["f16", -14, 15],
  ] as const) {
    const exponent = (x: number) => Math.floor(Math.log2(Math.abs(x)) + 1e-9);

    /** How many numbers have each sign and exponent e, as the sign times 1000 + e. */
    const countsOf = (numbers: Float64Array) => {
      const counts = new Map<number, number>();
      for (const x of numbers) {
        const key = Math.sign(x) * (exponent(x) + 1000);
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
      return counts;
    };

    it(`has several of each in ${dtype}, either sign, in order`, () => {
      for (const seed of [1, 2]) {
        const x = stratified(dtype, ends, false, seed);
        for (let i = 1; i < x.length; i++) assert.isAbove(x[i]!, x[i - 1]!);
        const counts = countsOf(x);
        for (let e = lowest; e <= highest; e++)
          for (const sign of [1, -1]) {
            assert.isAtLeast(counts.get(sign * (e + 1000))!, 6, `${sign} 2^${e}`);
            assert.isTrue(x.includes(sign * 2 ** e));
          }
        const small = x.filter((value) => value !== 0 && Math.abs(value) < 2 ** lowest);
        assert.lengthOf(small, 0);
        for (const { below } of ends)
          if (below !== undefined)
            assert.isAtLeast(x.filter((value) => Math.abs(value / below - 1) < 2 ** -8).length, 5);
      }
    });

    it(`has subnormal ones in ${dtype} where asked`, () => {
      const x = stratified(dtype, [], true, 1).filter((value) => Math.abs(value) < 2 ** lowest);
      assert.isAbove(x.length, dtype === "f32" ? 100 : 40);
      assert.isTrue(x.some((value) => value < 0));
    });

    // Quotients without a fraction, and angles, are not of every exponent.
    const spread = [...inexactBinaryKinds, "max"] as const;
    for (const kind of spread.filter((kind) => kind !== "floorDiv" && kind !== "atan2"))
      it(`has first operands of each, and results of nearly each, in ${dtype} for ${kind}`, () => {
        const { a, b } = stratifiedPairs(kind, dtype, 1);
        const results = new Set(Array.from(a, (x, i) => exponent(binaryFunctions[kind](x, b[i]!))));
        const counts = countsOf(a.map(Math.abs));
        let met = 0;
        for (let e = lowest; e <= highest; e++) {
          if (results.has(e)) met++;
          assert.isAtLeast(counts.get(e + 1000)!, 4, `2^${e}`);
        }
        assert.isAtLeast(met, 0.9 * (highest - lowest + 1));
      });
  }
});
