import { type IntegerType, integerTypes } from "@backplane/core";
import { expect } from "chai";
import { integerFunctions } from "#src/functions.js";

/** The largest whole number up to a / b. */
function floorOf(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return quotient * b !== a && a < 0n !== b < 0n ? quotient - 1n : quotient;
}

/** As mathematics has them, before they wrap around. */
const exact: Readonly<Record<keyof typeof integerFunctions.i32, (a: bigint, b: bigint) => bigint>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => (b === 0n ? 0n : a / b),
  rem: (a, b) => (b === 0n ? 0n : a % b),
  mod: (a, b) => (b === 0n ? 0n : a - b * floorOf(a, b)),
  floorDiv: (a, b) => (b === 0n ? 0n : floorOf(a, b)),
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
  shl: (a, b) => (b >= 0n && b < 32n ? a << b : 0n),
  // A negative count stands for one beyond 32.
  shr: (a, b) => a >> (b < 0n ? 32n : b < 32n ? b : 32n),
  max: (a, b) => [a, b].sort((x, y) => Number(y - x))[0]!,
  min: (a, b) => [a, b].sort((x, y) => Number(x - y))[0]!,
};

const wrapped: Readonly<Record<IntegerType, (value: bigint) => number>> = {
  i32: (value) => Number(BigInt.asIntN(32, value)),
  u32: (value) => Number(BigInt.asUintN(32, value)),
};

const small = [0, 1, 2, 3, 7, 46_340, 46_341, 65_535, 65_536, 65_537, 1_000_003, 2 ** 24 + 1];
const large = [2 ** 30, 2 ** 31 - 2, 2 ** 31 - 1];
const numbers: Readonly<Record<IntegerType, readonly number[]>> = {
  i32: [...small, ...large, ...[...small, ...large].slice(1).map((value) => -value), -(2 ** 31)],
  u32: [...small, ...large, 2 ** 31, 2 ** 31 + 1, 2 ** 32 - 2, 2 ** 32 - 1],
};

describe("The functions of integers", () => {
  for (const dtype of integerTypes)
    it(`are those of whole numbers of any size, wrapped to ${dtype}`, () => {
      for (const [kind, apply] of Object.entries(integerFunctions[dtype]))
        for (const a of numbers[dtype])
          for (const b of numbers[dtype]) {
            const wanted = wrapped[dtype](exact[kind as keyof typeof exact](BigInt(a), BigInt(b)));
            expect(
              apply(a, b) === wanted,
              `${kind} of ${a} and ${b}: ${apply(a, b)}, not ${wanted}`,
            ).to.equal(true);
          }
    });
});
