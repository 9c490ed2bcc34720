import type { FloatType, SoftmaxKind } from "@backplane/core";
import { wgsl, workgroupIndex } from "../../program/index.js";
import { mathFunctions } from "../elementwise/index.js";
import {
  type Along,
  type ApplyForm,
  across,
  each,
  type LaneCount,
  type LoadTile,
  larger,
  plus,
  sharedResult,
  sharing,
  type Type,
  type Vector,
  type Words,
} from "../rows/index.js";

/*
 * A row is what one softmax runs along; its number is o * inner + i. With m its largest element and S the sum
 * of e^(x - m), which is at least 1, a result is e^(x - m) (1 / S) or (x - m) - ln S. No step cancels: x - m and
 * -ln S are not positive (P. Blanchard, D. Higham, N. Higham, "Accurately computing the log-sum-exp and softmax
 * functions", IMA J. Numer. Anal. 41, 2021). In units of 2^-24, to first order, a result of softmax is off by
 * |x - m| (the difference is rounded) + 4 (the exponential) + 7 (1 / S and the product) + the mean of |x - m| + 4
 * over the weights + the additions of S that follow one another: 36 for rows in registers, and elsewhere one more
 * for every four or eight loads of an invocation.
 *
 * Rows in parts have a pair (m, S) each. Pairs join by S = sum of S_p e^(m_p - m) (M. Milakov, N. Gimelshein,
 * "Online normalizer calculation for softmax", 2018).
 *
 * Implementations of WGSL may assume that there is neither NaN nor infinity, so nothing depends on comparing
 * them: m starts at the lowest finite number, which leaves S = 0 if there is nothing but -Infinity, and S is
 * `SPOILT` if the bits of an element are those of NaN, or those of m +Infinity. Both make the row NaN at the end.
 */

/** The properties of a kernel with whole rows in registers; everything else is a parameter. */
export interface RegisterTile extends LoadTile {
  readonly dtype: FloatType;
  readonly kind: SoftmaxKind;
  /** Loads that an invocation holds. */
  readonly values: number;
  /** Whether the output is also the input. */
  readonly inPlace: boolean;
}

/** The properties of a kernel that makes pairs (m, S), of data or of other pairs. */
export interface StatisticsTile extends LoadTile {
  readonly source: FloatType | "pairs";
}

/** The properties of a kernel that makes results of data and pairs. */
export interface ApplyTile {
  readonly dtype: FloatType;
  readonly kind: SoftmaxKind;
  readonly form: ApplyForm;
  readonly vector: Vector;
  readonly inPlace: boolean;
}

/** What `finish` of a statistics program stands for: S, or what results need of it. */
export const finishes: Readonly<Record<"none" | SoftmaxKind, number>> = {
  none: 0,
  softmax: 1,
  logSoftmax: 2,
};

export const sharedFunctions: string = wgsl`
${workgroupIndex}
${mathFunctions(["decay", "settled", "logarithm", "from_bits"])}

const LOWEST = -0x1.fffffep+127f;
const SPOILT = -1e30;

/// 1 / S or ln S; NaN for a row without a result.
fn inverse_of(sum: f32) -> f32 { return select(1.0 / sum, from_bits(0x7fc00000u), sum < 0.5); }
fn logarithm_of(sum: f32) -> f32 { return select(logarithm(sum), from_bits(0x7fc00000u), sum < 0.5); }
`;

/**
 * e^difference, 0 for -Infinity. For results in f16 that of WGSL is enough, whose error is at most (6 + 4 |difference|) 2^-24,
 * and which takes fewer instructions: columns 1.2 times as fast on an H100.
 */
export function weightFunction(name: string, type: Type, source: StatisticsTile["source"]): string {
  if (source === "f16")
    return `fn ${name}(difference: ${type.f}) -> ${type.f} { return exp(max(difference, ${type.f}(-110.0))); }`;
  return `fn ${name}(difference: ${type.f}) -> ${type.f} { return ${type.f}(${each(type, "difference", (x) => `decay(${x})`)}); }`;
}

/** WGSL expression: what loads of no element bring, -Infinity, whose weight is 0. */
export function nothingIn({ type }: Words): string {
  return /u32/.test(type) ? `${type}(0xfc00fc00u)` : `${type}(from_bits(0xff800000u))`;
}

/** From the difference x - m, or its weight, to a result. `last` is 1 / S or ln S. */
export function resultOf(kind: SoftmaxKind, { f }: Type, difference: string, last: string): string {
  // Bounded, so that no compiler makes x - (m + ln S) of it, whose error would be one of m.
  return kind === "softmax" ? `${difference} * ${last}` : `min(${difference}, ${f}(3e38)) - ${last}`;
}

/** The functions by which `lanes` invocations share each of the rows of a workgroup. */
export function rowSharing(along: Along, lanes: LaneCount, type: Type): string {
  return wgsl`
${sharing(along, lanes)}
${sharedResult("largest_of", larger, type, lanes)}
${sharedResult("sum_of", plus, type, lanes)}
`;
}

/**
 * The sum, or `SPOILT` if there is NaN or +Infinity, given the largest element and its type, and as `seen` the largest magnitude:
 * one operation for each element less than by maxima of signed and of unsigned bits. Rows of 4096 of f16 are 1.1 times as fast so on
 * an H100.
 */
export function spoiltSum(along: Along, type: Type, sum: string, largest: string, own: Type): string {
  const infinite = `bitcast<${own.u}>(${largest}) == ${own.u}(0x7f800000u)`;
  const notNumbers = `seen > ${type.u}(0x7f800000u)`;
  if (along === "inner") return `select(${sum}, ${type.f}(SPOILT), (${infinite}) | (${notNumbers}))`;
  const any = (condition: string, { size }: Type) => (size === 1 ? `(${condition})` : `any(${condition})`);
  return `select(${across(type, sum, plus)}, SPOILT, ${any(infinite, own)} | ${any(notNumbers, type)})`;
}
