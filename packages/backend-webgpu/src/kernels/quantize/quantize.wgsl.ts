import { type FloatType, float32ToBits, type QuantizedBits } from "@backplane/core";
import {
  type ElementType,
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";

export interface QuantizeTile {
  readonly dtype: FloatType;
  readonly scaleType: FloatType;
  readonly bits: QuantizedBits;
  readonly zeroPoints: boolean;
  /** The input is read 16 bytes at a time: rows and the whole begin at multiples of that. */
  readonly vector: boolean;
}

/** Weights that one invocation stores: one word, or two. */
const WEIGHTS_EACH = 8;

/** Weights of a workgroup, which has all of their blocks. */
export const GROUP_WEIGHTS: number = WEIGHTS_EACH * WORKGROUP_SIZE;

/** Blocks of a workgroup at most. Each number of them is a multiple of 4, for words of zero points. */
const MOST_BLOCKS = GROUP_WEIGHTS / 32;

/** How scales lie in memory: bits of the fraction, and the exponent of the least normal number. */
const formats = {
  f32: { digits: 23, least: -126, infinity: "0x7f800000u", nan: "0x7fc00000u" },
  f16: { digits: 10, least: -14, infinity: "0x7c00u", nan: "0x7e00u" },
} as const;

export type QuantizeParameter = "count" | "k" | "blocks" | "block_shift";

/** How numbers are bound: one by one, and so that eight of them are few loads. */
const stored = {
  f32: { single: "u32", eight: "vec4u" },
  f16: { single: "half", eight: floatLayouts.f16.block },
} as const satisfies Readonly<
  Record<FloatType, { readonly single: ElementType; readonly eight: ElementType }>
>;

/**
 * An invocation takes eight weights; those of a block leave the ends of their range to one invocation of the workgroup,
 * which computes scale and zero point. Numbers are bits of f32 and are computed as whole numbers wherever a rounding
 * counts: WGSL promises neither nearest quotients nor subnormal numbers.
 */
export function quantizeProgram(tile: QuantizeTile): Program<string, QuantizeParameter> {
  const { dtype, scaleType, bits, zeroPoints, vector } = tile;
  const name = [
    `quantize_${dtype}_${bits}_bits_${scaleType}`,
    ...(zeroPoints ? ["zeros"] : []),
    ...(vector ? ["vector"] : []),
  ].join("_");
  const { functions } = floatLayouts[dtype];
  const scalesPerWord = floatLayouts[scaleType].perWord;
  const { single, eight } = stored[dtype];
  return program<string, QuantizeParameter>({
    name,
    bindings: {
      source: input(vector ? eight : single),
      b: output(bits === 4 ? "u32" : "vec2u"),
      scales: output(stored[scaleType].single),
      ...(zeroPoints ? { zero_points: output("byte") } : {}),
    },
    // Of blocks in all, weights and blocks of a row, and log2 of the weights of a block.
    parameters: { count: "u32", k: "u32", blocks: "u32", block_shift: "u32" },
    body: wgsl`
${workgroupIndex}
${functions}
${loadEight(tile)}
${roundingFunctions}
${scaleFunctions(tile)}
${stepFunctions(bits)}

var<workgroup> highs: array<u32, ${WORKGROUP_SIZE}>;
${zeroPoints ? `var<workgroup> lows: array<u32, ${WORKGROUP_SIZE}>;` : ""}
var<workgroup> scale_bits: array<u32, ${MOST_BLOCKS}>;
${scalesPerWord === 1 ? "" : `var<workgroup> stored_scales: array<u32, ${MOST_BLOCKS}>;`}
${zeroPoints ? `var<workgroup> zeros: array<u32, ${MOST_BLOCKS}>;` : ""}

fn largest(a: vec4u) -> u32 {
  let pair = max(a.xy, a.zw);
  return max(pair.x, pair.y);
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  // Invocations of a block.
  let part_shift = parameters.block_shift - ${Math.log2(WEIGHTS_EACH)}u;
  let unit = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let own_blocks = ${WORKGROUP_SIZE}u >> part_shift;
  let first_block = (unit - lane) >> part_shift;
  let block = unit >> part_shift;
  var weights = array<vec4u, 2>();
  if (block < parameters.count) {
    let row = block / parameters.blocks;
    let in_block = (unit & ((1u << part_shift) - 1u)) * ${WEIGHTS_EACH}u;
    let column = ((block - row * parameters.blocks) << parameters.block_shift) + in_block;
    weights = load_eight(row * parameters.k, column);
  }
${
  zeroPoints
    ? `  // As whole numbers with a sign, bits of positive numbers are in order, and as those without one, bits of negative ones.
  let signed = max(max(bitcast<vec4i>(weights[0]), bitcast<vec4i>(weights[1])), vec4i(0));
  highs[lane] = largest(bitcast<vec4u>(signed));
  lows[lane] = max(largest(max(weights[0], weights[1])), 0x80000000u) & 0x7fffffffu;`
    : `  highs[lane] = largest(max(weights[0] & vec4u(0x7fffffffu), weights[1] & vec4u(0x7fffffffu)));`
}
  workgroupBarrier();

  if (lane < own_blocks) {
    var high = 0u;
    var low = 0u;
    for (var i = 0u; i < (1u << part_shift); i++) {
      high = max(high, highs[(lane << part_shift) + i]);
${zeroPoints ? "      low = max(low, lows[(lane << part_shift) + i]);" : ""}
    }
    let stored = stored_scale(high, low);
    let scale = scale_from(stored);
    scale_bits[lane] = scale;
${scalesPerWord === 1 ? "" : "    stored_scales[lane] = stored;"}
${zeroPoints ? `    zeros[lane] = select(0u, min(exact_steps(vec4u(low), scale).x, ${2 ** bits - 1}u), scale > 0u);` : ""}
${scalesPerWord === 1 ? "    if (first_block + lane < parameters.count) { scales[parameters.scales_offset + first_block + lane] = stored; }" : ""}
  }
  workgroupBarrier();

${scalesPerWord === 1 ? "" : storeWords("scales", "stored_scales", scalesPerWord)}
${zeroPoints ? storeWords("zero_points", "zeros", 4) : ""}
  if (block >= parameters.count) { return; }
  let scale = scale_bits[lane >> part_shift];
  let zero = ${zeroPoints ? "vec4i(i32(zeros[lane >> part_shift]))" : `vec4i(${2 ** (bits - 1)})`};
  let first = stored_numbers(weights[0], scale, zero);
  let second = stored_numbers(weights[1], scale, zero);
  b[parameters.b_offset + unit] = ${bits === 4 ? "packed(first) | (packed(second) << 16u)" : "vec2u(packed(first), packed(second))"};
}
`,
  });
}

/** Loads of eight weights, which begin at a multiple of the elements of a load. */
const vectorLoads: Readonly<Record<FloatType, string>> = {
  f32: `  let at = parameters.source_offset + ((row + column) >> 2u);
  if (column < parameters.k) { weights[0] = source[at]; }
  if (column + 4u < parameters.k) { weights[1] = source[at + 1u]; }`,
  f16: `  if (column < parameters.k) {
    let halves = source[parameters.source_offset + (row + column) / ${floatLayouts.f16.perBlock}u];
    weights[0] = bitcast<vec4u>(quad_of(halves.xy));
    weights[1] = bitcast<vec4u>(quad_of(halves.zw));
  }`,
};

/** The bits of a finite scale in f32. */
const scaleBits: Readonly<Record<FloatType, string>> = {
  f32: "return stored;",
  f16: `let normal = (stored << 13u) + 0x38000000u;
  return select(normal, bitcast<u32>(f32(stored) * bitcast<f32>(${float32ToBits(2 ** -24)}u)), stored < 0x400u);`,
};

/** \`load_eight(row, column)\`: the bits of weights as f32, from a place in a row on that begins at an element; 0 past its end. */
function loadEight({ dtype, vector }: QuantizeTile): string {
  const { load, functions } = floatLayouts[dtype];
  if (vector)
    return wgsl`
fn load_eight(row: u32, column: u32) -> array<vec4u, 2> {
  var weights = array<vec4u, 2>();
${vectorLoads[dtype]}
  return weights;
}
`;
  const element = functions === "" ? "source[at]" : `bitcast<u32>(${load("source", "at")})`;
  return wgsl`
fn weight_at(row: u32, column: u32) -> u32 {
  if (column >= parameters.k) { return 0u; }
  let at = parameters.source_offset + row + column;
  return ${element};
}

fn load_eight(row: u32, column: u32) -> array<vec4u, 2> {
  var weights = array<vec4u, 2>();
${lines(WEIGHTS_EACH, (i) => `  weights[${i >> 2}][${i & 3}] = weight_at(row, column + ${i}u);`)}
  return weights;
}
`;
}

/** Numbers of 24 bits times powers of two: \`significand(bits) * 2^(exponent(bits) - 150)\`. */
const roundingFunctions: string = wgsl`
fn exponent(bits: u32) -> u32 { return max(bits >> 23u, 1u); }

fn significand(bits: u32) -> u32 {
  return (bits & 0x7fffffu) | select(0u, 0x800000u, bits >= 0x800000u);
}

/// The bits of value * 2^scale, to nearest even, in a format with so many digits of the fraction. The value is not 0,
/// and is at least two digits longer than a fraction with its leading one. Bits of infinity, or more, are for what is too large.
fn rounded(value: u32, scale: i32, digits: i32, least: i32) -> u32 {
  let power = max(i32(firstLeadingBit(value)) + scale, least);
  let dropped = u32(power - digits - scale);
  if (dropped > 31u) { return 0u; }
  let kept = value >> dropped;
  let rest = value << (32u - dropped);
  let up = rest > 0x80000000u || (rest == 0x80000000u && (kept & 1u) == 1u);
  return (u32(power - least) << u32(digits)) + kept + u32(up);
}
`;

function scaleFunctions({ bits, scaleType, zeroPoints }: QuantizeTile): string {
  const { digits, least, infinity, nan } = formats[scaleType];
  const divisor = zeroPoints ? 2 ** bits - 1 : 2 ** (bits - 1) - 1;
  return wgsl`
${
  zeroPoints
    ? wgsl`/// high + low in f32. A bit below all others stands for what is cut off.
fn range_of(high: u32, low: u32) -> u32 {
  let larger = max(high, low);
  let smaller = min(high, low);
  let distance = min(exponent(larger) - exponent(smaller), 31u);
  let shifted = significand(smaller) << 7u;
  let moved = shifted >> distance;
  let sum = ((significand(larger) << 7u) + moved) | u32((moved << distance) != shifted);
  if (sum == 0u) { return 0u; }
  return rounded(sum, i32(exponent(larger)) - 157, 23, -126);
}
`
    : ""
}
/// As it is stored, from the magnitudes of the ends.
fn stored_scale(high: u32, low: u32) -> u32 {
  if (max(high, low) >= 0x7f800000u) { return ${nan}; }
  let range = ${zeroPoints ? "range_of(high, low)" : "high"};
  if (range >= 0x7f800000u) { return ${nan}; }
  if (range == 0u) { return 0u; }
  // The quotient of all 32 bits may have no more than the 24 of a result: one more is worked out, and another one says
  // whether anything is left.
  let shift = countLeadingZeros(significand(range));
  let dividend = significand(range) << shift;
  let quotient = dividend / ${divisor}u;
  let twice = 2u * (dividend - quotient * ${divisor}u);
  let value = (quotient << 2u) | (u32(twice >= ${divisor}u) << 1u) | u32(twice % ${divisor}u != 0u);
  let scale = rounded(value, i32(exponent(range)) - 152 - i32(shift), ${digits}, ${least});
  return select(scale, ${nan}, scale >= ${infinity});
}

/// The bits of a stored scale in f32; 0 for NaN.
fn scale_from(stored: u32) -> u32 {
  if (stored >= ${infinity}) { return 0u; }
  ${scaleBits[scaleType]}
}
`;
}

/**
 * \`exact_steps\`: the quotients of magnitudes and a scale, where it is at most 2^9 times that, to the nearest whole number,
 * halves up. Shifted to the same power of two both are whole numbers below 2^32.
 *
 * Nearly all quotients are so far from a half that a product with the reciprocal shows on which side they are: that is off
 * by 3.5 units of 2^-23 of itself at most, if the scale is far from the ends of f32.
 */
function stepFunctions(bits: QuantizedBits): string {
  return wgsl`
struct Quotients { whole: vec4u, rest: vec4u, divisor: vec4u }

fn quotients(sizes: vec4u, scale: u32) -> Quotients {
  let powers = max(sizes >> vec4u(23u), vec4u(1u));
  let parts = (sizes & vec4u(0x7fffffu)) | select(vec4u(0u), vec4u(0x800000u), sizes >= vec4u(0x800000u));
  let power = vec4u(exponent(scale));
  let up = min(select(vec4u(0u), powers - power, powers > power), vec4u(31u));
  // From 3 on the quotient is below 1/2, however much further.
  let down = min(select(vec4u(0u), power - powers, powers < power), vec4u(3u));
  let divisor = vec4u(max(significand(scale), 1u)) << down;
  let dividend = parts << up;
  let whole = dividend / divisor;
  return Quotients(whole, dividend - whole * divisor, divisor);
}

fn exact_steps(sizes: vec4u, scale: u32) -> vec4u {
  let exact = quotients(sizes, scale);
  return exact.whole + select(vec4u(0u), vec4u(1u), exact.rest * 2u >= exact.divisor);
}

fn stored_numbers(weights: vec4u, scale: u32, zero: vec4i) -> vec4u {
  let sizes = select(vec4u(0u), weights & vec4u(0x7fffffffu), vec4<bool>(scale > 0u));
  let negative = weights >= vec4u(0x80000000u);
  // From 2^-100 to 2^100.
  let is_usual = (scale >> 23u) - 27u < 200u;
  let reciprocal = select(0.0, 1.0 / bitcast<f32>(scale), is_usual);
  let quotient = bitcast<vec4f>(sizes) * reciprocal;
  let whole = floor(quotient);
  let rest = quotient - whole;
  var steps = vec4i(whole) + select(vec4i(0), vec4i(1), rest >= vec4f(0.5));
  let doubt = abs(rest - 0.5) <= quotient * ${2 ** -20};
  if (any(doubt) || (!is_usual && scale > 0u)) {
    let exact = quotients(sizes, scale);
    let twice = exact.rest * 2u;
    let up = select(twice >= exact.divisor, twice > exact.divisor, negative);
    steps = vec4i(exact.whole) + select(vec4i(0), vec4i(1), up);
  }
  return vec4u(clamp(select(steps, -steps, negative) + zero, vec4i(0), vec4i(${2 ** bits - 1})));
}

fn packed(numbers: vec4u) -> u32 {
  let shifted = numbers << vec4u(${[0, 1, 2, 3].map((i) => `${i * bits}u`).join(", ")});
  return shifted.x | shifted.y | shifted.z | shifted.w;
}
`;
}

/** Stores one value of each block, several to a word; those that are not of this call keep their bits. */
function storeWords(binding: string, values: string, perWord: 2 | 4): string {
  const width = 32 / perWord;
  return wgsl`  if (lane < own_blocks / ${perWord}u && first_block + ${perWord}u * lane < parameters.count) {
    let at = (parameters.${binding}_offset + first_block) / ${perWord}u + lane;
    let left = parameters.count - first_block - ${perWord}u * lane;
    let word = ${Array.from({ length: perWord }, (_, i) => `(${values}[${perWord}u * lane + ${i}u] << ${width * i}u)`).join(" | ")};
    if (left >= ${perWord}u) { ${binding}[at] = word; } else {
      let mask = (1u << (left * ${width}u)) - 1u;
      ${binding}[at] = (${binding}[at] & ~mask) | (word & mask);
    }
  }
`;
}
