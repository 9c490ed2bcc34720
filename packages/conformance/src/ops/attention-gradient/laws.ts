import { type FloatType, floatTypes, maskTypes } from "@backplane/core";
import fc from "fast-check";
import { alignedPlacement, dataSeed, oddPlacement } from "../../arbitraries/shapes.js";
import { drawIntegers } from "../../data.js";
import { floatFormats } from "../../elements.js";
import { expectSame } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { exact } from "../../tolerance.js";
import {
  type AttentionCase,
  attentionCase,
  type Causal,
  cases,
  shapeOf,
  workOf,
} from "../attention/cases.js";
import { type AttentionShape, attention } from "../attention/formula.js";
import { keyMasks, maskCase, spreadMasks } from "../attention/mask-laws.js";
import type { Arrangement } from "../attention/rows.js";
import { check, compare, operandsOf, outputNames, run, withResults } from "./cases.js";
import { attentionGradient, type GradientInputs, type Gradients } from "./formula.js";
import { gradientTolerance } from "./tolerance.js";

const plain = (parts: Parameters<typeof attentionCase>[0]) => attentionCase({ sharpness: 1, ...parts });

/** Multiply-adds of one product that a random case may cost: there are five, and as many in f64. */
const work = 2 ** 16;

const gradientCases = (options: Parameters<typeof cases>[0] = {}) =>
  cases({ sharpness: [1, 3], ...options }).filter((value) => workOf(value) <= work);

/** Lengths around the tiles that kernels have, of queries and of keys. */
const tileEdges: readonly AttentionCase[] = [7, 8, 15, 16, 17, 23, 24, 25, 31, 32, 33, 63, 64, 65].flatMap(
  (length) => [
    plain({ queryLength: length, keyLength: length, headSize: 8, causal: true, kvHeads: 2 }),
    plain({ queryLength: 5, keyLength: length, headSize: 8, causal: "lower-right" }),
    plain({ queryLength: length, keyLength: 5, headSize: 8, group: 2 }),
  ],
);

const largeCases: readonly AttentionCase[] = [
  plain({ queryLength: 150, keyLength: 150, headSize: 64, causal: true }),
  plain({ queryLength: 100, keyLength: 137, headSize: 40, causal: "lower-right", group: 3 }),
  plain({ queryLength: 60, keyLength: 140, headSize: 128, group: 2 }),
  plain({ queryLength: 33, keyLength: 65, headSize: 260 }),
  plain({ queryLength: 1, keyLength: 300, headSize: 64, kvHeads: 2, group: 4, causal: "lower-right" }),
  plain({ queryLength: 270, keyLength: 3, headSize: 17, batch: 2, causal: true }),
];

const anyRows = fc.constantFrom<Arrangement>("contiguous", "room", "fused");
const someCausal = fc.constantFrom<Causal>(true, "upper-left", "lower-right");

const withWindows = (options: Parameters<typeof cases>[0]) =>
  fc
    .tuple(gradientCases({ causal: someCausal, ...options }), fc.integer({ min: 1, max: 40 }))
    .map(([value, window]): AttentionCase => ({ ...value, window }));

export const attentionGradientLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = (name: string, run: (context: LawContext) => Promise<void>, wants: object = {}): Law => ({
    ...{ topic: "attentionGradient", name, operation: "attentionGradient", dtype, run },
    exempt: (_capabilities, backend) =>
      maskTypes.every((maskDtype) => backend.supports("attentionGradient", { dtype, maskDtype, ...wants }))
        ? undefined
        : `attentionGradient in ${dtype} has no ${Object.keys(wants).join(" and no ")}`,
  });
  const [masked, windowed] = [{ mask: true }, { window: true }];
  return [
    law("is exact on whole numbers", (context) =>
      context.forAll(gradientCases(), (value) => wholeNumbers(context, dtype, value)),
    ),
    law("is exact on whole numbers at the edges of tiles", (context) =>
      context.forEach(tileEdges, (value) => wholeNumbers(context, dtype, value)),
    ),
    law("stays within the error bound", (context) =>
      context.forAll(gradientCases(), (value) => check(context, dtype, value), { runs: 2 }),
    ),
    law("stays within the error bound on larger shapes", (context) =>
      context.forEach(largeCases, (value) => check(context, dtype, value), { quick: 4 }),
    ),
    law("agrees with central differences of the formula of attention", (context) =>
      context.forAll(smallCases, (value) => centralDifferences(context, dtype, value)),
    ),
    law("aligns the causal mask at the upper left, or at the lower right", (context) =>
      context.forAll(
        gradientCases({ causal: someCausal }).filter(
          ({ queryLength, keyLength }) => queryLength !== keyLength,
        ),
        (value) => check(context, dtype, value),
      ),
    ),
    law("gives 0 to queries that see no key, and to keys that nobody sees", (context) =>
      context.forAll(gradientCases({ causal: someCausal }), async (value) => {
        const [long, short] = [value.queryLength + value.keyLength, Math.min(value.keyLength, 9)];
        await check(context, dtype, { ...value, queryLength: long, keyLength: short });
        await check(context, dtype, { ...value, queryLength: short, keyLength: long, causal: true });
      }),
    ),
    law("gives 0 where there are no keys, or no queries", (context) =>
      context.forAll(
        gradientCases({ queryRows: anyRows, keyRows: anyRows }),
        async (value) => {
          await check(context, dtype, { ...value, keyLength: 0 });
          await check(context, dtype, { ...value, queryLength: 0 });
          await check(context, dtype, { ...value, batch: 0 });
        },
        { runs: 0.5 },
      ),
    ),
    law("gives queries and keys no gradient where all keys have the same value", (context) =>
      context.forAll(gradientCases(), (value) => constantValues(context, dtype, value)),
    ),
    law("adds up the gradients of heads that share keys", (context) =>
      context.forAll(sharingCases, (value) => sharedKeys(context, dtype, value)),
    ),
    law("touches nothing but the elements of its outputs", (context) =>
      context.forAll(gradientCases({ placement: oddPlacement }), (value) => check(context, dtype, value)),
    ),
    law("gives the same bits wherever rows lie", (context) =>
      context.forAll(gradientCases({ queryRows: anyRows, keyRows: anyRows }), (value) =>
        anywhere(context, dtype, value),
      ),
    ),
    law(
      "adds a mask to the scores, or hides keys by it",
      (context) =>
        context.forAll(gradientCases({ mask: spreadMasks }), (value) => check(context, dtype, value), {
          examples: [hiddenRows],
        }),
      masked,
    ),
    law(
      "is exact on whole numbers with keys hidden by a mask",
      (context) =>
        context.forAll(gradientCases({ mask: keyMasks }), (value) => wholeNumbers(context, dtype, value)),
      masked,
    ),
    law(
      "is exact on whole numbers within a window",
      (context) => context.forAll(withWindows({}), (value) => wholeNumbers(context, dtype, value)),
      windowed,
    ),
    law(
      "takes windows, masks and rows with strides together",
      (context) =>
        context.forAll(withWindows({ mask: spreadMasks, keyRows: anyRows, queryRows: anyRows }), (value) =>
          check(context, dtype, value),
        ),
      { ...masked, ...windowed },
    ),
  ];
}

/** Every third query sees nothing. */
const hiddenRows = plain({
  ...{
    queryLength: 20,
    keyLength: 40,
    headSize: 16,
    kvHeads: 2,
    group: 2,
    mask: maskCase({ pattern: "rows" }),
  },
});

const smallCases = gradientCases().map(
  (value): AttentionCase => ({
    ...value,
    batch: 1,
    kvHeads: 1,
    queryLength: 1 + (value.queryLength % 5),
    keyLength: 1 + (value.keyLength % 6),
    headSize: Math.min(value.headSize, 5),
  }),
);

const sharingCases = fc
  .tuple(gradientCases(), fc.constantFrom(2, 3), dataSeed)
  .map(([value, group, seed]): AttentionCase => ({ ...value, group, seed }))
  .filter((value) => workOf(value) <= work);

/**
 * Queries have their numbers in the first half of a head, keys in the second: all scores are 0. With logSumExp 0 all
 * probabilities are 1, and everything else is a sum of products of small whole numbers.
 */
function wholeNumbers(context: LawContext, dtype: FloatType, value: AttentionCase): Promise<void> {
  const { batch, kvHeads, group, queryLength, keyLength, seed } = value;
  const headSize = Math.max(value.headSize, 2);
  const queries = batch * kvHeads * group * queryLength;
  const keys = batch * kvHeads * keyLength;
  const half = Math.ceil(headSize / 2);
  const whole = (rows: number, offset: number) => drawIntegers(2, rows * headSize, seed + offset);
  const inputs: GradientInputs = {
    q: whole(queries, 0).map((x, i) => (i % headSize < half ? x : 0)),
    k: whole(keys, 1).map((x, i) => (i % headSize < half ? 0 : x)),
    ...{ v: whole(keys, 2), out: whole(queries, 3), outGradient: whole(queries, 4) },
    logSumExp: new Float64Array(queries),
  };
  return check(context, dtype, { ...value, headSize, scale: 2 }, inputs, exact(dtype));
}

/** The weights of a query sum to 1: if all values are the same, nothing depends on the scores, exactly so in whole numbers. */
async function constantValues(context: LawContext, dtype: FloatType, value: AttentionCase): Promise<void> {
  const { batch, kvHeads, group, queryLength, keyLength, headSize, seed } = value;
  const one = drawIntegers(3, headSize, seed);
  const operands = operandsOf(value, dtype);
  const v = operands.v.map((_, i) => one[i % headSize]!);
  const shape = shapeOf(value);
  const { logSumExp } = withResults(value, dtype, shape, { ...operands, v });
  const isSeen = logSumExp.map((x) => (x === Number.NEGATIVE_INFINITY ? 0 : 1));
  const queries = batch * kvHeads * group * queryLength * headSize;
  const out = Float64Array.from(
    { length: queries },
    (_, i) => isSeen[Math.floor(i / headSize)]! * one[i % headSize]!,
  );
  const outGradient = drawIntegers(3, queries, seed + 3);
  const got = await run(context, dtype, value, { ...operands, v, out, logSumExp, outGradient });
  const zeros = { queries: new Array<number>(queries).fill(0), keys: new Array<number>(v.length).fill(0) };
  expectSame(`qGradient with ${keyLength} equal values`, [...got.qGradient].map(Math.abs), zeros.queries);
  expectSame(`kGradient with ${keyLength} equal values`, [...got.kGradient].map(Math.abs), zeros.keys);
}

/** Differences of sum of outGradient * out, in f64, are off by the third derivative times a third of the step squared or so. */
async function centralDifferences(
  context: LawContext,
  dtype: FloatType,
  value: AttentionCase,
): Promise<void> {
  const shape = shapeOf(value);
  const inputs = operandsOf(value, dtype, shape);
  const got = await run(context, dtype, value, inputs);
  const analytic = attentionGradient(shape, inputs);
  const step = 2 ** -13;
  const sources = { qGradient: "q", kGradient: "k", vGradient: "v" } as const;
  const tolerance = gradientTolerance(dtype, context.numerics);
  const largest = Object.values(inputs)
    .flatMap((values) => [...values])
    .reduce((most, x) => (Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most), 1);
  // Results of f16 are rounded, and D with them; the derivatives of a softmax of small scores are a few powers of the inputs.
  const ofOut = (1 / floatFormats[dtype].exactUpTo) * 2 * shape.headSize * largest ** 2;
  const slack =
    (ofOut + step ** 2 * largest ** 4) *
    Math.max(1, Math.abs(shape.scale)) ** 3 *
    shape.queryLength *
    largest;
  for (const name of outputNames) {
    const { errors } = analytic[name];
    const values = inputs[sources[name]].map((_, i) => {
      const moved = (by: number) =>
        sumOf(shape, {
          ...inputs,
          [sources[name]]: inputs[sources[name]].map((y, n) => (n === i ? y + by : y)),
        });
      return (moved(step) - moved(-step)) / (2 * step);
    });
    const expected = { [name]: { values, errors } } as unknown as Gradients;
    for (const [i, x] of values.entries()) {
      const allowed = tolerance(x, expected[name].errors[i]!) + slack;
      if (!(Math.abs(got[name][i]! - x) <= allowed))
        throw new Error(`${name}[${i}] is ${got[name][i]}, but the difference ${x}, with ${allowed} allowed`);
    }
  }
}

function sumOf(shape: AttentionShape, { q, k, v, outGradient }: GradientInputs): number {
  let sum = 0;
  attention(shape, q, k, v, (index, x) => {
    sum += outGradient[index]! * x;
  });
  return sum;
}

/** Heads with keys of their own that are the same: the sums of their gradients are those of shared keys. */
async function sharedKeys(context: LawContext, dtype: FloatType, value: AttentionCase): Promise<void> {
  const inputs = operandsOf(value, dtype);
  const { group, kvHeads, batch, keyLength, headSize } = value;
  const size = keyLength * headSize;
  const repeated = (x: Float64Array) =>
    Float64Array.from(
      { length: x.length * group },
      (_, i) => x[Math.floor(i / size / group) * size + (i % size)]!,
    );
  const apart: AttentionCase = { ...value, kvHeads: kvHeads * group, group: 1 };
  const own = await run(context, dtype, apart, { ...inputs, k: repeated(inputs.k), v: repeated(inputs.v) });
  const shared = await run(context, dtype, value, inputs);
  const bounds = attentionGradient(shapeOf(value), inputs);
  const tolerance = gradientTolerance(dtype, context.numerics);
  const summed = (x: Float64Array) => {
    const sums = new Float64Array(batch * kvHeads * size);
    for (const [i, y] of x.entries()) sums[Math.floor(i / size / group) * size + (i % size)]! += y;
    return sums;
  };
  // Both are off, and each of the heads apart is rounded.
  const twice = (name: keyof Gradients, values: Float64Array) => ({
    values,
    errors: bounds[name].errors.map((x) => 2 * x),
  });
  const expected = {
    qGradient: twice("qGradient", own.qGradient),
    kGradient: twice("kGradient", summed(own.kGradient)),
    vGradient: twice("vGradient", summed(own.vGradient)),
  };
  const most = Math.max(1, ...Object.values(own).flatMap((x) => [...x].map(Math.abs)));
  compare(context, value, shared, expected, (x, error) => tolerance(x, error) + group * tolerance(most, 0));
}

async function anywhere(context: LawContext, dtype: FloatType, value: AttentionCase): Promise<void> {
  const inputs = operandsOf(value, dtype);
  // Other loads may add up in another order.
  const placed: AttentionCase = { ...value, placement: alignedPlacement };
  const contiguous = { ...placed, queryRows: "contiguous", keyRows: "contiguous" } as const;
  const [one, other] = [
    await run(context, dtype, contiguous, inputs),
    await run(context, dtype, placed, inputs),
  ];
  for (const name of outputNames) expectSame(`${name} of rows anywhere`, [...other[name]], [...one[name]]);
}
