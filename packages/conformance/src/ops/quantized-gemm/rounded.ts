import type { FloatType } from "@backplane/core";
import { random } from "../../data.js";
import { floatFormats } from "../../elements.js";
import type { Law, LawContext } from "../../law.js";
import {
  cases,
  checkWithinBound,
  type QuantizedCase,
  type QuantizedOperands,
  quantizedCase,
  run,
} from "./cases.js";

/** Blocks of a row. Each row of B has weights in one of them only, the next row in the next one. */
const blocks = 4;

const exponents: readonly number[] = [0, -24, 24, 0];

/** Rows of A for which it matters what their numbers are rounded by. */
const rows = {
  "blocks of other sizes": (next, _, block) => (next() - 0.5) * 2 ** exponents[block]!,
  "one huge number in each block": (next, p) => (p % 32 === 5 ? 2 ** 36 : next() - 0.5),
  "one huge number, and a block of zeros": (next, p, block) =>
    p === 5 ? 2 ** 36 : block === 2 ? 0 : next() - 0.5,
  "numbers just below a power of two": (next) =>
    (next() < 0.5 ? -1 : 1) * (2 - 2 ** -10) * 2 ** Math.floor(-9 * next()),
} as const satisfies Record<string, (next: () => number, p: number, block: number) => number>;

interface HostileCase extends QuantizedCase {
  readonly row: keyof typeof rows;
}

const hostileCases: readonly HostileCase[] = (Object.keys(rows) as (keyof typeof rows)[]).flatMap((row, i) =>
  ([4, 8] as const).flatMap((bits) =>
    [1, 3].map((m) => {
      const block = ([32, 64, 128] as const)[(i + bits / 4 + m) % 3]!;
      // The last block is not full.
      const k = (blocks - 1) * block + 21;
      return { ...quantizedCase({ m, n: 19, k, bits, block, mayRoundA: true }), row };
    }),
  ),
);

/** A as the case has it, and weights, of which half of the rows of B have none for numbers near the largest of a block. */
function hostileOperands(
  { m, n, k, bits, block, row, seed }: HostileCase,
  dtype: FloatType,
): QuantizedOperands {
  const next = random(seed);
  const { roundNormal } = floatFormats[dtype];
  const a = Float64Array.from({ length: m * k }, (_, i) => {
    const x = rows[row](next, i % k, Math.floor((i % k) / block));
    // f16 has a quarter of the exponents.
    return roundNormal(dtype === "f16" ? Math.sign(x) * Math.abs(x) ** 0.25 : x);
  });
  const largest = Array.from({ length: blocks }, (_, i) =>
    a.subarray(i * block, Math.min((i + 1) * block, k)).reduce((most, x) => Math.max(most, Math.abs(x)), 0),
  );
  const middle = 2 ** (bits - 1);
  const stored = Array.from({ length: n * blocks * block }, (_, i) => {
    const [column, p] = [Math.floor(i / (blocks * block)), i % (blocks * block)];
    const own = Math.floor(p / block);
    const isLarge = Math.abs(a[p] ?? 0) > largest[own]! / 64;
    const isLeftOut = own !== column % blocks || (isLarge && Math.floor(column / blocks) % 2 === 1);
    return isLeftOut ? middle : Math.floor(2 * middle * next());
  });
  return {
    a,
    b: Float64Array.from({ length: (stored.length * bits) / 8 }, (_, i) =>
      bits === 8 ? stored[i]! : stored[2 * i]! + 16 * stored[2 * i + 1]!,
    ),
    scales: Float64Array.from({ length: n * blocks }, () => 2 ** Math.floor(-4 * next()) / middle),
    ...{ zeroPoints: undefined, bias: undefined },
    before: new Float64Array(m * n).fill(Number.NaN),
  };
}

/** Both sides of what kernels for one row take at once. */
const largeCases: readonly QuantizedCase[] = [
  quantizedCase({ m: 1, n: 130, k: 4097, zeroPoints: true, mayRoundA: true }),
  quantizedCase({ m: 1, n: 9, k: 16_385, block: 128, scaleType: "f16", mayRoundA: true }),
  quantizedCase({ m: 1, n: 67, k: 2080, bits: 8, scaleType: "f16", mayRoundA: true }),
  quantizedCase({ m: 3, n: 40, k: 300, block: 64, bits: 8, zeroPoints: true, mayRoundA: true }),
  quantizedCase({ m: 1, n: 300, k: 256, beta: 1, bits: 8, data: "wide", mayRoundA: true }),
  quantizedCase({ m: 33, n: 40, k: 96, mayRoundA: true }),
];

/**
 * Numbers that make every result infinite or NaN, as IEEE 754 has it: where a weight is 0, it is NaN. Rounding by the largest number would make all
 * of them NaN.
 */
const special: Readonly<Record<string, readonly number[]>> = {
  "an infinity": [Number.POSITIVE_INFINITY],
  "infinities of both signs": [Number.NEGATIVE_INFINITY, 1, Number.POSITIVE_INFINITY],
  "a NaN": [Number.NaN],
};

async function keepsSpecialNumbers(context: LawContext, dtype: FloatType): Promise<void> {
  for (const [name, numbers] of Object.entries(special))
    for (const bits of [4, 8] as const)
      for (const m of [1, 2]) {
        const value = quantizedCase({ m, n: 9, k: 3 * 32 + 21, bits, mayRoundA: true });
        const operands = hostileOperands({ ...value, row: "numbers just below a power of two" }, dtype);
        const a = operands.a.map((x, i) => numbers[(i % value.k) - 3] ?? x);
        const { got, expected } = await run(context, dtype, value, { ...operands, a });
        for (const [i, place] of expected.places.entries())
          if (!Object.is(got[place], expected.values[i]))
            throw new Error(
              `${name} in A, ${m} rows, ${bits} bits: result ${i} is ${got[place]}, not ${expected.values[i]}`,
            );
      }
}

/** Laws of calls that permit to round A. */
export function roundedLaws(dtype: FloatType, law: (name: string, run: Law["run"]) => Law): readonly Law[] {
  return [
    law("stays within the wider error bound where A may be rounded", (context) =>
      context.forAll(
        cases({ largest: 129 }).map((value) => ({ ...value, mayRoundA: true })),
        (value) => checkWithinBound(context, dtype, value),
      ),
    ),
    law("stays within the wider error bound on larger shapes", (context) =>
      context.forEach(largeCases, (value) => checkWithinBound(context, dtype, value), { quick: 4 }),
    ),
    law("rounds A by no more than the largest number of the same block allows", (context) =>
      context.forEach(hostileCases, (value) =>
        checkWithinBound(context, dtype, value, hostileOperands(value, dtype)),
      ),
    ),
    {
      ...law("rounds nothing beside a NaN or an infinity", (context) => keepsSpecialNumbers(context, dtype)),
      exempt: ({ numerics: { nan, infinity } }) =>
        nan === "kept" && infinity === "kept" ? undefined : "it need not keep NaN and infinities",
    },
  ];
}
