// Tags: proof, pure
import { inexactUnaryKinds } from "@backplane/core";
import { assert } from "chai";
import { oracleUnits } from "#src/accuracy.js";
import { random } from "#src/data.js";
import { unaryFunctions } from "#src/index.js";
import { ulp } from "#src/tolerance.js";
import { bigFunctions, fixed, toNumber } from "./support/big-numbers.js";

/** Where each function is tried: ends of exponents of the argument, both signs unless said. */
const reach: Partial<Record<(typeof inexactUnaryKinds)[number], readonly [lowest: number, highest: number]>> =
  {
    ...{ exp: [-30, 6], expm1: [-30, 6], sigmoid: [-30, 6], silu: [-30, 6], softplus: [-30, 6] },
    ...{ exp2: [-30, 6.9], sinh: [-30, 6], cosh: [-30, 6], square: [-60, 60] },
    ...{ asin: [-100, 0], acos: [-100, 0], atanh: [-100, 0], acosh: [0, 100] },
    ...{ tanh: [-100, 4], erf: [-100, 3], gelu: [-100, 3.7], geluTanh: [-100, 3.3] },
  };

describe("The functions of the oracle", () => {
  for (const kind of inexactUnaryKinds)
    it(`have ${kind} to ${oracleUnits} units of f32`, () => {
      const next = random(7);
      const [lowest, highest] = reach[kind] ?? [-100, 100];
      const isPositive = /^(log|log2|sqrt|rsqrt|acosh)$/.test(kind);
      const isDefined = (x: number): boolean =>
        !(/^(asin|acos|atanh)$/.test(kind) && Math.abs(x) >= 1) &&
        !(kind === "log1p" && x <= -1) &&
        !(kind === "acosh" && x <= 1);
      // A few near 1, 0 of log, and near pi, 0 of sin.
      const near = [1, Math.PI, Math.PI / 2, 1.5 * Math.PI].flatMap((x) =>
        [-2, 0, 1].map((i) => Math.fround(x) + i * ulp(x)),
      );
      const drawn = Array.from({ length: 90 }, () => 2 ** (lowest + (highest - lowest) * next()));
      for (const size of [...near, ...drawn].map(Math.fround))
        for (const x of (isPositive ? [size] : [size, -size]).filter(isDefined)) {
          const exact = toNumber(bigFunctions[kind](fixed(x)));
          if (Math.abs(exact) < 2 ** -126 || Math.abs(exact) >= 2 ** 127) continue;
          const error = Math.abs(unaryFunctions[kind](x) - exact) / ulp(exact);
          assert.isAtMost(error, oracleUnits, `${kind}(${x})`);
        }
    });

  it("have those of the test, told apart from wrong ones", () => {
    assert.equal(toNumber(bigFunctions.exp(fixed(1))), Math.E);
    assert.closeTo(toNumber(bigFunctions.erf(fixed(0.5))), 0.5204998778130465, 1e-15);
    assert.closeTo(toNumber(bigFunctions.gelu(fixed(-10))) / -7.61985302416e-23, 1, 1e-12);
    assert.equal(toNumber(fixed(-(2 ** -100) * 1.5)), -(2 ** -100) * 1.5);
  });
});
