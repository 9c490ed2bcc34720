import { type FloatType, floatTypes } from "@backplane/core";
import fc from "fast-check";
import { oddPlacement } from "../../arbitraries/shapes.js";
import type { Law, LawContext } from "../../law.js";
import {
  type AttentionCase,
  attentionCase,
  type Causal,
  cases,
  check,
  equalScores,
  operandsOf,
  sumsOnly,
  work,
  workOf,
} from "./cases.js";
import { logSumExpLaws } from "./log-sum-exp.js";
import { maskLaws } from "./mask-laws.js";
import type { Arrangement } from "./rows.js";

const largeCases: readonly AttentionCase[] = [
  attentionCase({ queryLength: 200, keyLength: 200, headSize: 64, causal: true, kvHeads: 2 }),
  attentionCase({ queryLength: 129, keyLength: 257, headSize: 80, causal: "lower-right" }),
  attentionCase({ queryLength: 100, keyLength: 200, headSize: 128, group: 2 }),
  attentionCase({
    queryLength: 1,
    keyLength: 2049,
    headSize: 64,
    kvHeads: 2,
    group: 4,
    causal: "lower-right",
  }),
  attentionCase({ batch: 2, queryLength: 3, keyLength: 1031, headSize: 128, causal: "lower-right" }),
  attentionCase({ queryLength: 257, keyLength: 3, headSize: 40, causal: "upper-left" }),
  attentionCase({ queryLength: 70, keyLength: 66, headSize: 256 }),
  attentionCase({ queryLength: 33, keyLength: 65, headSize: 513 }),
];

/** Lengths around the key and query tiles that kernels have. */
const tileEdges: readonly AttentionCase[] = [
  7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 127, 128, 129,
].flatMap((keyLength) =>
  ([false, "lower-right"] as const).map((causal) =>
    attentionCase({ queryLength: keyLength % 2 === 0 ? keyLength : 5, keyLength, headSize: 16, causal }),
  ),
);

export const attentionLaws: readonly Law[] = floatTypes.flatMap((dtype) => [
  ...lawsFor(dtype),
  ...maskLaws(dtype),
  ...logSumExpLaws(dtype),
]);

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "attention", name, operation: "attention", dtype, run },
  });
  return [
    law("stays within the error bound", (context) =>
      context.forAll(cases(), (value) => check(context, dtype, value), { runs: 2 }),
    ),
    law("stays within the error bound at the edges of tiles", (context) =>
      context.forEach(tileEdges, (value) => check(context, dtype, value)),
    ),
    law("stays within the error bound on larger shapes", (context) =>
      context.forEach(largeCases, (value) => check(context, dtype, value), { quick: 5 }),
    ),
    law("stays within the error bound with few queries and many keys", (context) =>
      context.forAll(longCases, (value) => check(context, dtype, value), { runs: 0.5 }),
    ),
    law("aligns the causal mask at the upper left, or at the lower right", (context) =>
      context.forAll(
        cases({ causal: fc.constantFrom<Causal>(true, "upper-left", "lower-right") }).filter(
          (value) => value.queryLength !== value.keyLength,
        ),
        (value) => check(context, dtype, value),
      ),
    ),
    law("gives zeros to queries that see no key", (context) =>
      context.forAll(blindCases, (value) => check(context, dtype, value)),
    ),
    law("gives zeros where there are no keys", (context) =>
      context.forAll(cases(), (value) => check(context, dtype, { ...value, keyLength: 0 })),
    ),
    law("takes an empty batch, or no queries, for nothing to do", (context) =>
      context.forAll(cases(), async (value) => {
        await check(context, dtype, { ...value, batch: 0 });
        await check(context, dtype, { ...value, queryLength: 0 });
      }),
    ),
    law("does not overflow on large scores", (context) =>
      context.forAll(cases({ sharpness: [64, 256] }), (value) => check(context, dtype, value)),
    ),
    law("gives back the values where all keys have the same", (context) =>
      context.forAll(cases(), (value) => constantValues(context, dtype, value)),
    ),
    law("weighs each key once where all scores are the same", (context) =>
      context.forAll(longCases, (value) => equalScores(context, dtype, value), { runs: 0.5 }),
    ),
    law("touches nothing but the elements of its output", (context) =>
      context.forAll(cases({ placement: oddPlacement }), (value) => check(context, dtype, value)),
    ),
    law("takes rows with room behind them, and rows of several operands side by side", (context) =>
      context.forAll(cases({ keyRows: anyRows, queryRows: anyRows }), (value) =>
        check(context, dtype, value),
      ),
    ),
    law("takes a cache with room for more keys", (context) =>
      context.forEach(cacheCases, (value) => check(context, dtype, value), { quick: 4 }),
    ),
    law("gives zeros to rows that lie anywhere where there are no keys", (context) =>
      context.forAll(
        cases({ queryRows: anyRows, keyRows: anyRows }),
        (value) => check(context, dtype, { ...value, keyLength: 0 }),
        { runs: 0.5 },
      ),
    ),
  ];
}

const anyRows = fc.constantFrom<Arrangement>("contiguous", "room", "fused");

/** One and several queries, few keys and so many that kernels share them out. */
const cacheCases: readonly AttentionCase[] = [
  attentionCase({ queryLength: 1, keyLength: 700, headSize: 64, kvHeads: 2, group: 2, keyRows: "room" }),
  attentionCase({ queryLength: 40, keyLength: 70, headSize: 32, kvHeads: 3, batch: 2, keyRows: "room" }),
  attentionCase({ queryLength: 2, keyLength: 33, headSize: 128, kvHeads: 2, batch: 2, keyRows: "room" }),
  attentionCase({ queryLength: 1, keyLength: 300, headSize: 64, kvHeads: 2, group: 2, keyRows: "fused" }),
  attentionCase({ queryLength: 3, keyLength: 65, headSize: 17, kvHeads: 2, keyRows: "room" }),
  attentionCase({
    ...{ queryLength: 150, keyLength: 180, headSize: 64, kvHeads: 2, causal: "lower-right" },
    ...{ keyRows: "room", queryRows: "fused" },
  }),
];

/** As when text is generated. */
const longCases = fc
  .tuple(cases(), fc.integer({ min: 1, max: 6 }), fc.integer({ min: 130, max: 900 }))
  .map(([value, queryLength, keyLength]): AttentionCase => ({ ...value, queryLength, keyLength }))
  .filter((value) => workOf(value) <= work);

/** More queries than keys, aligned at the lower right: the first queries see nothing. */
const blindCases = cases({ causal: fc.constant("lower-right") }).map((value): AttentionCase => {
  const { queryLength, keyLength } = value;
  return {
    ...value,
    queryLength: Math.max(queryLength, keyLength) + 1,
    keyLength: Math.min(queryLength, keyLength),
  };
});

/**
 * The weights of each query sum to 1, whatever they are. Errors of the scores and exponentials enter
 * numerator and denominator alike; only the two sums over the keys and the division are left.
 */
async function constantValues(context: LawContext, dtype: FloatType, value: AttentionCase): Promise<void> {
  const operands = operandsOf(value, dtype);
  const { keyLength, headSize } = value;
  const first = operands.v.slice();
  const v = operands.v.map((_, i) => {
    const head = Math.floor(i / (keyLength * headSize)) * keyLength * headSize;
    return first[head + (i % headSize)]!;
  });
  await check(context, dtype, value, { ...operands, v }, sumsOnly(context, dtype, keyLength));
}
