import type { CausalMode, FloatType } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, extent, fixedPlacement, placement } from "../../arbitraries/shapes.js";
import { draw, roundTo } from "../../data.js";
import { given } from "../../kit/arguments.js";
import type { LawContext } from "../../law.js";
import { gamma, type Tolerance } from "../../tolerance.js";
import { collect, executeAll, measure, type Placement } from "../../workspace.js";
import { type AttentionShape, attention, logSumExp } from "./formula.js";
import {
  contiguousMask,
  expandedMask,
  type MaskCase,
  maskArguments,
  placedMask,
  windowMask,
} from "./masks.js";
import { type Arrangement, arranged, placesOf, scattered } from "./rows.js";
import { attentionTolerance, attentionWeights, logSumExpError, logSumExpTolerance } from "./tolerance.js";

export type Causal = boolean | CausalMode;

export interface AttentionCase {
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
  /** Null: none. */
  readonly window: number | null;
  readonly mask: MaskCase | null;
  /** Of k and v, and of q and out. */
  readonly keyRows: Arrangement;
  readonly queryRows: Arrangement;
  /** Whether it is stored. */
  readonly logSumExp: boolean;
  /** Multiplies q: 1 leads to scores of about 1, more makes the softmax sharper. */
  readonly sharpness: number;
  readonly placement: Placement;
  readonly seed: number;
}

export function attentionCase(
  parts: Partial<AttentionCase> & Pick<AttentionCase, "queryLength" | "keyLength" | "headSize">,
): AttentionCase {
  return {
    ...{ batch: 1, kvHeads: 1, group: 1, scale: null, causal: false, sharpness: 2, window: null },
    ...{ mask: null, logSumExp: false },
    ...{ keyRows: "contiguous", queryRows: "contiguous", placement: fixedPlacement, seed: 1 },
    ...parts,
  };
}

interface CaseOptions {
  readonly keyRows?: Arbitrary<Arrangement>;
  readonly queryRows?: Arbitrary<Arrangement>;
  readonly causal?: Arbitrary<Causal>;
  readonly mask?: Arbitrary<MaskCase | null>;
  readonly logSumExp?: boolean;
  readonly sharpness?: readonly number[];
  readonly placement?: Arbitrary<Placement>;
}

/** Multiply-adds that one random case may cost. */
export const work: number = 2 ** 18;

export function cases(options: CaseOptions = {}): Arbitrary<AttentionCase> {
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
      mask: options.mask ?? fc.constant(null),
      window: fc.constant(null),
      sharpness: fc.constantFrom(...(options.sharpness ?? [1, 4])),
      keyRows: options.keyRows ?? fc.constant<Arrangement>("contiguous"),
      queryRows: options.queryRows ?? fc.constant<Arrangement>("contiguous"),
      logSumExp: fc.constant(options.logSumExp ?? false),
      placement: options.placement ?? placement,
      seed: dataSeed,
    })
    .filter((value) => workOf(value) <= work);
}

export function workOf(value: AttentionCase): number {
  const { batch, kvHeads, group, queryLength, keyLength, headSize } = value;
  return batch * kvHeads * group * queryLength * keyLength * headSize;
}

/** The shape, whose mask stands for the window too. */
export function shapeOf(value: AttentionCase): AttentionShape {
  const { batch, kvHeads, group, queryLength, keyLength, headSize, causal, window } = value;
  const scale = value.scale ?? 1 / Math.sqrt(headSize);
  let visible = keyLength;
  if (causal === true || causal === "upper-left") visible = 0;
  else if (causal === "lower-right") visible = keyLength - queryLength;
  const heads = kvHeads * group;
  const shape = { batch, heads, kvHeads, queryLength, keyLength, headSize, scale, visible };
  if (window === null && value.mask === null) return shape;
  const extents = [batch, heads, queryLength, keyLength] as const;
  const values = value.mask === null ? undefined : expandedMask(value.mask, extents);
  const seen = windowMask(extents, window === null ? undefined : { window, visible });
  // Where the window hides, so does the mask.
  const isBoolean = values === undefined || value.mask!.dtype === "u8";
  const hidden = isBoolean ? 0 : Number.NEGATIVE_INFINITY;
  const both = values === undefined ? seen : values.map((x, i) => (seen[i] === 0 ? hidden : x));
  return { ...shape, mask: { isBoolean, values: both, strides: contiguousMask(extents) } };
}

export interface AttentionOperands {
  readonly q: Float64Array;
  readonly k: Float64Array;
  readonly v: Float64Array;
}

export function operandsOf(value: AttentionCase, dtype: FloatType): AttentionOperands {
  const { batch, kvHeads, group, queryLength, keyLength, headSize, sharpness, seed } = value;
  const keys = batch * kvHeads * keyLength * headSize;
  const q = draw("normal", batch * kvHeads * group * queryLength * headSize, seed, dtype);
  return {
    q: q.map((x) => roundTo(dtype, x * sharpness)),
    k: draw("normal", keys, seed + 1, dtype),
    v: draw("normal", keys, seed + 2, dtype),
  };
}

export async function check(
  context: LawContext,
  dtype: FloatType,
  value: AttentionCase,
  operands: AttentionOperands = operandsOf(value, dtype),
  special?: Tolerance,
  shape: AttentionShape = shapeOf(value),
): Promise<void> {
  const { backend } = context;
  const { q, k, v } = operands;
  const { batch, heads, kvHeads, queryLength, keyLength, headSize } = shape;
  const queryRows = arranged(value.queryRows, [batch, heads, queryLength], headSize);
  const keyRows = arranged(value.keyRows, [batch, kvHeads, keyLength], headSize);
  const places = placesOf(queryRows);
  const expected = collect((emit) =>
    attention(
      ...([shape, q, k, v] as const),
      (index, ...rest) => emit(places[index]!, ...rest),
      attentionWeights,
    ),
  );
  const mask =
    value.mask === null ? undefined : placedMask(value.mask, [batch, heads, queryLength, keyLength]);
  const out = scattered(new Float64Array(q.length).fill(Number.NaN), queryRows);
  const sums = collect((emit) => logSumExp(shape, q, k, emit, logSumExpError));
  type Placed = Record<"q" | "k" | "v" | "out" | "mask" | "logSumExp", Float64Array>;
  const placed: Omit<Placed, "mask" | "logSumExp"> & Partial<Placed> = {
    ...{ q: scattered(q, queryRows), k: scattered(k, keyRows), v: scattered(v, keyRows), out },
    ...(mask === undefined ? {} : { mask: mask.stored }),
    ...(value.logSumExp ? { logSumExp: new Float64Array(sums.places.length).fill(Number.NaN) } : {}),
  };
  const got = await executeAll({
    ...{ backend, dtype, placement: value.placement },
    written: { out: expected.places, ...(value.logSumExp ? { logSumExp: sums.places } : {}) },
    operands: placed as Placed,
    dtypes: { logSumExp: "f32", ...(value.mask === null ? {} : { mask: value.mask.dtype }) },
    call: (slices) =>
      backend.attention({
        ...{ ...slices, batch, heads, queryLength, keyLength, headSize },
        ...(kvHeads === heads ? {} : { kvHeads }),
        ...(value.scale === null ? {} : { scale: value.scale }),
        ...(value.causal === false ? {} : { causal: value.causal }),
        ...(value.window === null ? {} : { window: value.window }),
        ...maskArguments(value.mask, mask?.strides, dtype),
        ...(value.queryRows === "contiguous"
          ? {}
          : { qStrides: queryRows.strides, outStrides: queryRows.strides }),
        ...(value.keyRows === "contiguous" ? {} : { kStrides: keyRows.strides, vStrides: keyRows.strides }),
        ...given(dtype),
      }),
  });
  const tolerance = special ?? attentionTolerance(keyLength, dtype, context.numerics);
  const extents = [queryLength, keyLength, headSize];
  measure(context, extents, got.out!, expected, tolerance);
  if (value.logSumExp) measure(context, extents, got.logSumExp!, sums, logSumExpTolerance);
}

/**
 * With a scale of 0, element d of the output is the part of the keys seen whose number is d modulo the
 * head size: one key more or less shows, which the error bound of a long softmax might forgive.
 */
export async function equalScores(
  context: LawContext,
  dtype: FloatType,
  value: AttentionCase,
): Promise<void> {
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
export function sumsOnly(context: LawContext, dtype: FloatType, keyLength: number): Tolerance {
  const storage = attentionTolerance(0, dtype, context.numerics);
  return (exact) => gamma(2 * keyLength + 8) * Math.abs(exact) + storage(exact, 0);
}
