import type { FloatType, SoftmaxKind } from "@backplane/core";
import { type ElementType, floatLayouts, WORKGROUP_SIZE, wgsl, workgroupIndex } from "../../program/index.js";
import { mathFunctions } from "../elementwise/index.js";

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
 * `SPOILT` if the bits of an element are those of NaN or +Infinity. Both make the row NaN at the end.
 */

/** Elements that one load takes. f16 is read one by one anywhere, but written in whole words. */
export type Vector = 1 | 2 | 4;

export type LaneCount = 1 | 4 | 16 | 64 | 256;
export const laneCounts: readonly LaneCount[] = [1, 4, 16, 64, WORKGROUP_SIZE];

/** Neighbouring invocations read neighbours in a row, or neighbouring rows; vectors lie likewise. */
export type Along = "length" | "inner";

/** The properties of a kernel with whole rows in registers; everything else is a parameter. */
export interface RegisterTile {
  readonly dtype: FloatType;
  readonly kind: SoftmaxKind;
  readonly along: Along;
  readonly vector: Vector;
  /** Invocations that share a row, and the loads that each of them holds. */
  readonly lanes: LaneCount;
  readonly values: number;
  /** Whether the output is also the input. */
  readonly inPlace: boolean;
}

/** The properties of a kernel that makes pairs (m, S), of data or of other pairs. */
export interface StatisticsTile {
  readonly source: FloatType | "pairs";
  readonly along: Along;
  readonly vector: Vector;
  readonly lanes: LaneCount;
}

/** The properties of a kernel that makes results of data and pairs. */
export interface ApplyTile {
  readonly dtype: FloatType;
  readonly kind: SoftmaxKind;
  /** `lines`: an invocation keeps the pairs of its columns for several lines. `flat`: any shape. */
  readonly form: "lines" | "flat";
  readonly vector: Vector;
  readonly inPlace: boolean;
}

/** Lines for which an invocation keeps its pairs. */
export const LINES_APPLIED = 8;

/** What `finish` of a statistics program stands for: S, or what results need of it. */
export const finishes: Readonly<Record<"none" | SoftmaxKind, number>> = {
  none: 0,
  softmax: 1,
  logSoftmax: 2,
};

/** Values whose text is the same for one and for several elements. */
export interface Type {
  readonly size: Vector;
  readonly f: string;
  readonly i: string;
  readonly u: string;
}

export function typeOf(size: Vector): Type {
  const name = (scalar: string) => (size === 1 ? scalar : `vec${size}<${scalar}>`);
  return { size, f: name("f32"), i: name("i32"), u: name("u32") };
}

export const components = ["x", "y", "z", "w"] as const;

/** `text` for each component of a value, as a list. */
export function each({ size }: Type, value: string, text: (component: string) => string): string {
  if (size === 1) return text(value);
  return components
    .slice(0, size)
    .map((component) => text(`${value}.${component}`))
    .join(", ");
}

/** Pairs of neighbours first: ((a + b) + (c + d)). */
export function tree(values: readonly string[], join: (a: string, b: string) => string): string {
  if (values.length === 1) return values[0]!;
  const middle = Math.ceil(values.length / 2);
  return join(tree(values.slice(0, middle), join), tree(values.slice(middle), join));
}

export const plus = (a: string, b: string): string => `(${a} + ${b})`;
export const larger = (a: string, b: string): string => `max(${a}, ${b})`;

/** One number of the components of a value: its largest one, or their sum. */
export function across({ size }: Type, value: string, join: (a: string, b: string) => string): string {
  return size === 1
    ? value
    : tree(
        components.slice(0, size).map((component) => `${value}.${component}`),
        join,
      );
}

export function storageOf(dtype: FloatType, vector: Vector): ElementType {
  const { single, quad } = floatLayouts[dtype];
  return vector === 4 ? quad : single;
}

/** From what a binding of quads holds. */
const unpackedQuads: Readonly<Record<FloatType, (quad: string) => string>> = {
  f32: (quad) => quad,
  f16: (quad) => `quad_of(${quad})`,
};

/** The number `place` counts vectors from the start of the region. */
export function loadFunction(name: string, dtype: FloatType, { f, size }: Type): string {
  const offset = `parameters.${name}_offset`;
  const texts: Readonly<Record<Vector, string>> = {
    1: floatLayouts[dtype].load(name, `(${offset} + place)`),
    2: `unpack2x16float(${name}[(${offset} >> 1u) + place])`,
    4: unpackedQuads[dtype](`${name}[${offset} + place]`),
  };
  return `fn load(place: u32) -> ${f} { return ${texts[size]}; }`;
}

/** Likewise, for whole words. */
export function storeFunction(dtype: FloatType, { f, size }: Type): string {
  const texts: Readonly<Record<Vector, string>> = {
    1: "output[parameters.output_offset + place] = value;",
    2: "output[(parameters.output_offset >> 1u) + place] = pack_halves(value.x, value.y);",
    4: `output[parameters.output_offset + place] = ${floatLayouts[dtype].packed("value")};`,
  };
  return `fn store(place: u32, value: ${f}) { ${texts[size]} }`;
}

export const sharedFunctions: string = wgsl`
${workgroupIndex}
${mathFunctions(["decay", "settled", "logarithm", "from_bits"])}

const LOWEST = -0x1.fffffep+127f;
const SPOILT = -1e30;

/// 1 / S or ln S; NaN for a row without a result.
fn inverse_of(sum: f32) -> f32 { return select(1.0 / sum, from_bits(0x7fc00000u), sum < 0.5); }
fn logarithm_of(sum: f32) -> f32 { return select(logarithm(sum), from_bits(0x7fc00000u), sum < 0.5); }
`;

/** e^difference, 0 for -Infinity */
export function weightFunction(name: string, type: Type): string {
  return `fn ${name}(difference: ${type.f}) -> ${type.f} { return ${type.f}(${each(type, "difference", (x) => `decay(${x})`)}); }`;
}

/** From the difference x - m, or its weight, to a result. `last` is 1 / S or ln S. */
export function resultOf(kind: SoftmaxKind, { f }: Type, difference: string, last: string): string {
  // Bounded, so that no compiler makes x - (m + ln S) of it, whose error would be one of m.
  return kind === "softmax" ? `${difference} * ${last}` : `min(${difference}, ${f}(3e38)) - ${last}`;
}

/** Invocations that share rows meet in workgroup memory, in up to two rounds. All of them get the result. */
const ROUND = 16;

function sharedResult(
  name: string,
  join: (a: string, b: string) => string,
  { f }: Type,
  lanes: LaneCount,
): string {
  const head = `fn ${name}(slot: u32, reducer: u32, own: ${f}) -> ${f}`;
  if (lanes === 1) return `${head} { return own; }`;
  const first = Math.min(lanes, ROUND);
  const second = lanes / first;
  return wgsl`
var<workgroup> ${name}_shares: array<${f}, ${WORKGROUP_SIZE}>;
${second > 1 ? `var<workgroup> ${name}_rounds: array<${f}, ${WORKGROUP_SIZE / first}>;` : ""}

${head} {
  ${name}_shares[share_place(slot, reducer)] = own;
  workgroupBarrier();
  let start = reducer / ${first}u * ${first}u;
  var result = ${name}_shares[share_place(slot, start)];
  for (var i = 1u; i < ${first}u; i++) {
    let other = ${name}_shares[share_place(slot, start + i)];
    result = ${join("result", "other")};
  }
${
  second > 1
    ? wgsl`
  if (reducer == start) { ${name}_rounds[slot * ${second}u + reducer / ${first}u] = result; }
  workgroupBarrier();
  result = ${name}_rounds[slot * ${second}u];
  for (var i = 1u; i < ${second}u; i++) {
    let other = ${name}_rounds[slot * ${second}u + i];
    result = ${join("result", "other")};
  }`
    : ""
}
  return result;
}`;
}

/** The functions and constants by which `lanes` invocations share each of the rows of a workgroup. */
export function sharing(along: Along, lanes: LaneCount, type: Type): string {
  return wgsl`
const LANES = ${lanes}u;
const SLOTS = ${WORKGROUP_SIZE / lanes}u;

fn share_place(slot: u32, reducer: u32) -> u32 {
  return ${along === "length" ? "slot * LANES + reducer" : "reducer * SLOTS + slot"};
}
${sharedResult("largest_of", larger, type, lanes)}
${sharedResult("sum_of", plus, type, lanes)}
`;
}

export function placeInGroup(along: Along): string {
  return wgsl`
  let slot = ${along === "length" ? "lane / LANES" : "lane % SLOTS"};
  let reducer = ${along === "length" ? "lane % LANES" : "lane / SLOTS"};`;
}

/** Loads count vectors; so does inner, if these lie along it. */
export const firstOfRow =
  "(row / parameters.inner) * parameters.length * parameters.inner + row % parameters.inner";

/** Whether bits are those of NaN or +Infinity, given the largest as i32 and as u32: -NaN is above -Infinity there. */
export function spoiltSum(along: Along, type: Type, sum: string): string {
  const spoilt = `(top >= ${type.i}(0x7f800000)) | (bottom > ${type.u}(0xff800000u))`;
  if (along === "inner") return `select(${sum}, ${type.f}(SPOILT), ${spoilt})`;
  return `select(${across(type, sum, plus)}, SPOILT, ${type.size === 1 ? spoilt : `any(${spoilt})`})`;
}
