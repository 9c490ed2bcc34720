import { type CausalMode, type FloatType, floatTypes } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, extent, fixedPlacement, oddPlacement, placement } from "../../arbitraries/shapes.js";
import { draw, roundTo } from "../../data.js";
import { given } from "../../kit/arguments.js";
import type { Law, LawContext } from "../../law.js";
import { gamma, type Tolerance } from "../../tolerance.js";
import { collect, execute, measure, type Placement } from "../../workspace.js";
import { type AttentionShape, attention } from "./formula.js";
import { type Arrangement, arranged, placesOf, scattered } from "./rows.js";
import { attentionTolerance, attentionWeights } from "./tolerance.js";

type Causal = boolean | CausalMode;

interface AttentionCase {
  readonly batch: number;
  readonly kvHeads: number;
  /** Query heads per key head. */
  readonly group: number;
  readonly queryLength: number;
  readonly keyLength: number;
  readonly headSize: number;
  /** Null: the default. */
  readonly scale: number | null;
  readonly causal: Causal;
  /** Of k and v, and of q and out. */
  readonly keyRows: Arrangement;
  readonly queryRows: Arrangement;
  /** Multiplies q: 1 leads to scores of about 1, more makes the softmax sharper. */
  readonly sharpness: number;
  readonly placement: Placement;
  readonly seed: number;
}

function attentionCase(
  parts: Partial<AttentionCase> & Pick<AttentionCase, "queryLength" | "keyLength" | "headSize">,
): AttentionCase {
  return {
    ...{ batch: 1, kvHeads: 1, group: 1, scale: null, causal: false, sharpness: 2 },
    ...{ keyRows: "contiguous", queryRows: "contiguous", placement: fixedPlacement, seed: 1 },
    ...parts,
  };
}

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

interface CaseOptions {
  readonly keyRows?: Arbitrary<Arrangement>;
  readonly queryRows?: Arbitrary<Arrangement>;
  readonly causal?: Arbitrary<Causal>;
  readonly sharpness?: readonly number[];
  readonly placement?: Arbitrary<Placement>;
}

/** Multiply-adds that one random case may cost. */
const work = 2 ** 18;

function cases(options: CaseOptions = {}): Arbitrary<AttentionCase> {
  return fc
    .record({
      batch: fc.constantFrom(1, 2, 3),
      kvHeads: fc.constantFrom(1, 2, 3),
      group: fc.constantFrom(1, 1, 2, 4),
      queryLength: extent(129),
      keyLength: extent(129),
      headSize: fc.constantFrom(1, 2, 3, 4, 5, 8, 15, 16, 17, 24, 32, 33, 40, 64, 72, 80, 96, 128),
      scale: fc.constantFrom(null, null, 0, 1, -0.5),
      causal: options.causal ?? fc.constantFrom<Causal>(false, true, "upper-left", "lower-right"),
      sharpness: fc.constantFrom(...(options.sharpness ?? [1, 4])),
      keyRows: options.keyRows ?? fc.constant<Arrangement>("contiguous"),
      queryRows: options.queryRows ?? fc.constant<Arrangement>("contiguous"),
      placement: options.placement ?? placement,
      seed: dataSeed,
    })
    .filter((value) => workOf(value) <= work);
}

function workOf(value: AttentionCase): number {
  const { batch, kvHeads, group, queryLength, keyLength, headSize } = value;
  return batch * kvHeads * group * queryLength * keyLength * headSize;
}

function shapeOf(value: AttentionCase): AttentionShape {
  const { batch, kvHeads, group, queryLength, keyLength, headSize, causal } = value;
  const scale = value.scale ?? 1 / Math.sqrt(headSize);
  let visible = keyLength;
  if (causal === true || causal === "upper-left") visible = 0;
  else if (causal === "lower-right") visible = keyLength - queryLength;
  return { batch, heads: kvHeads * group, kvHeads, queryLength, keyLength, headSize, scale, visible };
}

interface AttentionOperands {
  readonly q: Float64Array;
  readonly k: Float64Array;
  readonly v: Float64Array;
}

function operandsOf(value: AttentionCase, dtype: FloatType): AttentionOperands {
  const { batch, kvHeads, group, queryLength, keyLength, headSize, sharpness, seed } = value;
  const keys = batch * kvHeads * keyLength * headSize;
  const q = draw("normal", batch * kvHeads * group * queryLength * headSize, seed, dtype);
  return {
    q: q.map((x) => roundTo(dtype, x * sharpness)),
    k: draw("normal", keys, seed + 1, dtype),
    v: draw("normal", keys, seed + 2, dtype),
  };
}

async function check(
  context: LawContext,
  dtype: FloatType,
  value: AttentionCase,
  operands: AttentionOperands = operandsOf(value, dtype),
  special?: Tolerance,
): Promise<void> {
  const { backend } = context;
  const { q, k, v } = operands;
  const shape = shapeOf(value);
  const { batch, heads, kvHeads, queryLength, keyLength, headSize } = shape;
  const queryRows = arranged(value.queryRows, [batch, heads, queryLength], headSize);
  const keyRows = arranged(value.keyRows, [batch, kvHeads, keyLength], headSize);
  const places = placesOf(queryRows);
  const expected = collect((emit) =>
    attention(
      ...([shape, q, k, v] as const),
      (index, ...rest) => emit(places[index]!, ...rest),
      (row) => attentionWeights(row, shape.headSize),
    ),
  );
  const out = scattered(new Float64Array(q.length).fill(Number.NaN), queryRows);
  const got = await execute({
    ...{ backend, dtype, placement: value.placement, output: "out", written: expected.places },
    operands: {
      ...{ q: scattered(q, queryRows), k: scattered(k, keyRows), v: scattered(v, keyRows), out },
    },
    call: (slices) =>
      backend.attention({
        ...{ ...slices, batch, heads, queryLength, keyLength, headSize },
        ...(kvHeads === heads ? {} : { kvHeads }),
        ...(value.scale === null ? {} : { scale: value.scale }),
        ...(value.causal === false ? {} : { causal: value.causal }),
        ...(value.queryRows === "contiguous"
          ? {}
          : { qStrides: queryRows.strides, outStrides: queryRows.strides }),
        ...(value.keyRows === "contiguous" ? {} : { kStrides: keyRows.strides, vStrides: keyRows.strides }),
        ...given(dtype),
      }),
  });
  const tolerance = special ?? attentionTolerance(keyLength, dtype, context.numerics);
  measure(context, [queryLength, keyLength, headSize], got, expected, tolerance);
}

export const attentionLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

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
 * With a scale of 0, element d of the output is the part of the keys seen whose number is d modulo the
 * head size: one key more or less shows, which the error bound of a long softmax might forgive.
 */
async function equalScores(context: LawContext, dtype: FloatType, value: AttentionCase): Promise<void> {
  const operands = operandsOf(value, dtype);
  const { keyLength, headSize } = value;
  const v = operands.v.map((_, i) =>
    (Math.floor(i / headSize) % keyLength) % headSize === i % headSize ? 1 : 0,
  );
  await check(
    context,
    dtype,
    { ...value, scale: 0 },
    { ...operands, v },
    sumsOnly(context, dtype, keyLength),
  );
}

/** For laws on which errors of scores and exponentials have no influence. */
function sumsOnly(context: LawContext, dtype: FloatType, keyLength: number): Tolerance {
  const storage = attentionTolerance(0, dtype, context.numerics);
  return (exact) => gamma(2 * keyLength + 8) * Math.abs(exact) + storage(exact, 0);
}

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
