import { isTruthReduction } from "@backplane/core";
import { type ElementLayout, wgsl } from "../../program/index.js";
import { magnitudeFunction } from "../elementwise/index.js";
import { across, larger, plus, tree, typeOf } from "../rows/index.js";
import { loadedValues, readLayouts } from "./loads.wgsl.js";
import type { ReduceOperator, ReduceTile } from "./tile.js";
import { truths } from "./truths.wgsl.js";

/** WGSL of what invocations have of an output, their shares, which become one. */
export interface ShareText {
  /** The type of a share: of an output, or of four that a vector has. */
  readonly type: string;
  /** `combine(a, b)`, of two shares, and whatever other text needs. */
  readonly functions: string;
  /** Statements: variables for a share of nothing. */
  readonly begin: string;
  /** Statements that take what these variables hold, up to `unrollOf` loads. */
  take(names: readonly string[]): string;
  /** Statements that return the share. */
  readonly end: string;
  /** Expression: the shares of a subgroup as one. */
  ofSubgroup(share: string): string;
  /** Statements that make `result` of the share `total` of all. */
  readonly finish: string;
}

/**
 * Loads in flight per invocation; half as many of those that leave two values, whose exponentials fill registers, where few share an
 * output.
 */
export function unrollOf(tile: ReduceTile): number {
  const isShared = tile.lanes === "subgroup" || tile.lanes > 4;
  return isShared ? 4 : 4 / loadedValues(tile).length;
}

export function shareText(tile: ReduceTile): ShareText {
  const { operator } = tile;
  return operator === "logSumExp" ? exponentials(tile) : plain(tile, operator);
}

type PlainOperator = Exclude<ReduceOperator, "logSumExp">;

/** Values, in several chains of additions, which are shorter and do not wait for each other. */
function plain(tile: ReduceTile, operator: PlainOperator): ShareText {
  const { dtype, wide, along } = tile;
  const scalar = readLayouts[dtype].value;
  const value = wide ? `vec4<${scalar}>` : scalar;
  const isVector = wide && along === "kept";
  const type = isVector ? value : scalar;
  const combine = (type: string, name: string) =>
    `fn ${name}(a: ${type}, b: ${type}) -> ${type} { return ${operators[operator]}; }`;
  const join = (name: string) => (a: string, b: string) => `${name}(${a}, ${b})`;
  const ofLoads = wide ? "combine_wide" : "combine";
  const parts = Array.from({ length: unrollOf(tile) }, (_, i) => `part_${i}`);
  const total = tree(parts, join(ofLoads));
  return {
    type,
    functions: `${combine(type, "combine")}\n${wide ? combine(value, "combine_wide") : ""}`,
    begin: parts.map((name) => `  var ${name} = ${value}(parameters.identity);`).join("\n"),
    take: (names) =>
      names.map((name, i) => `      ${parts[i]} = ${ofLoads}(${parts[i]}, ${name});`).join("\n"),
    end:
      wide && !isVector
        ? wgsl`let total = ${total};
  return ${across(typeOf(4), "total", join("combine"))};`
        : `return ${total};`,
    ofSubgroup: (share) => `${subgroupFunctions[operator]}(${share})`,
    finish: isTruthReduction(operator)
      ? truths[operator].finish(type)
      : `  var result = total;\n${divisions[scalar]}`,
  };
}

/**
 * Of numbers, the largest one m, and the sum of e^(x - m); logSumExp is m + ln(sum). A larger m found later costs one exponential
 * for all loads under way (M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018). Results of parts are
 * joined as if they were elements.
 *
 * Implementations of WGSL may assume that there is neither NaN nor infinity, and their exponential of NaN may be a number, so nothing
 * depends on comparing them: m is finite, at least the lowest number, which leaves a sum of 0 if there is nothing but -Infinity;
 * +Infinity is in the sum; and NaN, which is found by the largest magnitude of all bits, is the sum.
 */
function exponentials(tile: ReduceTile): ShareText {
  const { wide, along } = tile;
  const isVector = wide && along === "kept";
  /** Of what is loaded, and of a share. */
  const [own, share] = [typeOf(wide ? 4 : 1), typeOf(isVector ? 4 : 1)];
  return {
    type: "Share",
    functions: wgsl`
struct Share { largest: ${share.f}, sum: ${share.f} }

const LOWEST = -0x1.fffffep+127f;

${magnitudeFunction(own.f, own.u)}
/// By its bits, for a comparison of numbers may be taken for always true.
fn finite(x: ${own.f}) -> ${own.f} {
  return select(x, ${own.f}(-LOWEST), bitcast<${own.u}>(x) == ${own.u}(0x7f800000u));
}

fn from_bits(bits: ${share.u}) -> ${share.f} { return bitcast<${share.f}>(bits); }

fn combine(a: Share, b: Share) -> Share {
  let largest = max(a.largest, b.largest);
  return Share(largest, a.sum * exp(a.largest - largest) + b.sum * exp(b.largest - largest));
}
${
  tile.lanes === "subgroup"
    ? wgsl`
fn of_subgroup(own: Share) -> Share {
  let largest = subgroupMax(own.largest);
  return Share(largest, subgroupAdd(own.sum * exp(own.largest - largest)));
}`
    : ""
}`,
    begin: wgsl`
  var largest = ${own.f}(LOWEST);
  var sum = ${own.f}(0.0);
  var seen = ${own.u}(0u);`,
    take(names) {
      const values = names.flatMap((name) => loadedValues(tile).map((part) => `${name}${part}`));
      return wgsl`
      let before = largest;
      largest = finite(max(before, ${tree(values, larger)}));
      sum = sum * exp(before - largest) + ${tree(
        values.map((x) => `exp(${x} - largest)`),
        plus,
      )};
      seen = max(seen, ${tree(
        values.map((x) => `magnitude(${x})`),
        larger,
      )});`;
    },
    end:
      wide && !isVector
        ? wgsl`let highest = ${across(own, "largest", larger)};
  sum *= exp(largest - highest);
  let isNaN = any(seen > ${own.u}(0x7f800000u));
  return Share(highest, select(${across(own, "sum", plus)}, from_bits(0x7fc00000u), isNaN));`
        : wgsl`let isNaN = seen > ${own.u}(0x7f800000u);
  return Share(largest, select(sum, from_bits(${share.u}(0x7fc00000u)), isNaN));`,
    ofSubgroup: (name) => `of_subgroup(${name})`,
    finish: wgsl`
  let bits = bitcast<${share.u}>(total.sum);
  let logarithm = bitcast<${share.u}>(total.largest + log(total.sum));
  let number = select(logarithm, ${share.u}(0xff800000u), bits == ${share.u}(0u));
  let isNaN = (bits & ${share.u}(0x7fffffffu)) > ${share.u}(0x7f800000u);
  let result = from_bits(select(number, ${share.u}(0x7fc00000u), isNaN));`,
  };
}

const operators: Readonly<Record<PlainOperator, string>> = {
  sum: "a + b",
  prod: "a * b",
  max: "max(a, b)",
  min: "min(a, b)",
  any: "a | b",
  all: "a | b",
};

const subgroupFunctions: Readonly<Record<PlainOperator, string>> = {
  sum: "subgroupAdd",
  prod: "subgroupMul",
  max: "subgroupMax",
  min: "subgroupMin",
  any: "subgroupOr",
  all: "subgroupOr",
};

/** Of sums that are to be means. Integers have none. */
const divisions: Readonly<Record<ElementLayout["value"], string>> = {
  f32: "  if (parameters.divisor != 1.0) { result /= parameters.divisor; }",
  i32: "",
  u32: "",
};
