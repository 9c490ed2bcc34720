import type { Numerics } from "@backplane/core";
import { assert } from "chai";
import { reduction } from "#src/ops/reduce/tolerance.js";
import { productSum } from "#src/tolerance.js";

const numerics: Numerics = {
  ...{ nan: "kept", infinity: "kept", subnormals: "kept", signedZero: "kept" },
  ...{ rounding: "nearest-even", deterministic: true },
};
const unit = 2 ** -149;

describe("Tolerances where subnormal numbers are kept", () => {
  // A quarter and a half of a unit from the next number that f32 has: far more than eps of the value.
  for (const value of [48_596.25 * unit, -1000.5 * unit, 0.5 * unit]) {
    const lost = Math.abs(Math.fround(value) - value);
    for (const [name, tolerance] of [
      ["a product", productSum(4, "f32", numerics)],
      ["a mean", reduction("mean", 2, "f32", numerics)],
    ] as const)
      it(`let ${name} of ${value / unit} units be rounded, and no more`, () => {
        const allowed = tolerance(value, Math.abs(value));
        assert.isAbove(lost, 0);
        assert.isAtLeast(allowed, lost);
        assert.isAtMost(allowed, 5 * unit);
      });
  }
});
