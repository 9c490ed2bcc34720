import {
  halfFunctions,
  input,
  linearBuiltins,
  lines,
  memoized,
  output,
  type Program,
  packQuad,
  program,
  roundedHalfQuad,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../../program/index.js";

import { RUN } from "./split-tile.js";

/*
 * Splitting an f32 operand into pairs of f16. A line, which is a row of op(A) or a column of op(B), has one
 * exponent e for all its elements x, such that the largest lies in [2^14, 2^15) after scaling:
 *
 *   x 2^-e = high + 2^-11 low, up to max(2^-23 |x| 2^-e, 2^-36)
 *
 * with high and low in f16. Lines are stored one after the other, `part_pitch` halves each: for every run of
 * 16 along k (zeros past the end) 16 high parts and then 16 low ones, the depth of a subgroup matrix.
 *
 * A line is *wide* if that is not accurate enough: if a number other than zero is more than `octaves` powers
 * of two below the largest, if the largest is near the ends of the range of f32, or if there is a NaN or an
 * infinity. The parts of a wide line are not written.
 */

/** The exponent of a wide line. */
export const WIDE = 0x7fff;

/** Powers of two by which the low parts are enlarged; else they would fall below the range of f16. */
export const LOW_SHIFT = 11;

/** Lines and stretch of k that a workgroup of `splitAcrossProgram` does, and stretch of `extentsProgram`. */
export const ACROSS_LINES = 32;
export const ACROSS_DEPTH: number = 8 * (WORKGROUP_SIZE / ACROSS_LINES);
export const EXTENTS_DEPTH = 256;

const lineParameters = {
  /** Lines of one matrix. */
  lines: "u32",
  matrices: "u32",
  k: "u32",
  /** Elements from one stored row of the source to the next, and from one matrix to the next. */
  pitch: "u32",
  step: "u32",
  octaves: "u32",
  part_pitch: "u32",
} as const;

/** More about the filters of convolutions, whose lines are read tap by tap. */
const filterParameters = {
  ...lineParameters,
  taps: "u32",
  channels: "u32",
  /** With zeros after the last one. */
  padded_channels: "u32",
} as const;

/**
 * `line_exponent` takes bits of magnitudes: the largest, and the smallest but zero, less one (so that zero
 * is larger than all others).
 */
export const exponentFunction: string = wgsl`
const MAGNITUDE = 0x7fffffffu;

fn line_exponent(largest: u32, smallest_less_one: u32) -> i32 {
  if (largest == 0u) { return 0; }
  let top = largest >> 23u; // the exponent, with a bias of 127
  let bottom = (smallest_less_one + 1u) >> 23u;
  if (top < 27u || top == 255u || top - bottom > parameters.octaves) { return ${WIDE}; }
  return i32(top) - 127 - 14;
}
`;

/**
 * `parts_of` four elements that are scaled already. High parts are rounded by integer arithmetic on every device: a compiler
 * may take unpack2x16float(pack2x16float(x)) for x (NVIDIA's does), so that nothing would be left for the low ones.
 */
export const partsFunctions: string = wgsl`
${packQuad}
${roundedHalfQuad}
struct Parts {
  high: vec2u,
  low: vec2u,
}

fn parts_of(scaled: vec4f) -> Parts {
  let bits = bitcast<vec4u>(scaled);
  // To 11 bits.
  var values = bitcast<vec4f>((bits + 0xfffu + ((bits >> vec4u(13u)) & vec4u(1u))) & vec4u(0xffffe000u));
  var high = vec2u(pack2x16float(values.xy), pack2x16float(values.zw));
  // Numbers below 2^-14, other than zero, have fewer.
  if (any((bits * 2u) - 1u < vec4u(0x70ffffffu))) {
    high = rounded_half_quad(scaled);
    values = vec4f(unpack2x16float(high.x), unpack2x16float(high.y));
  }
  return Parts(high, pack_quad((scaled - values) * ${2 ** LOW_SHIFT}.0));
}
`;

/** `split_at` writes the parts of eight elements, the low ones behind a run of high ones. */
export const splitFunctions: string = wgsl`
${halfFunctions}
${partsFunctions}
fn split_at(at: u32, exponent: i32, first: vec4f, second: vec4f) {
  let scale = bitcast<f32>(u32(127 - exponent) << 23u);
  let of_first = parts_of(first * scale);
  let of_second = parts_of(second * scale);
  parts[at] = vec4u(of_first.high, of_second.high);
  parts[at + ${RUN / 8}u] = vec4u(of_first.low, of_second.low);
}
`;

/** `split_eight` writes the parts of eight elements from k = `depth` on. */
const lineFunctions: string = wgsl`
${exponentFunction}
${splitFunctions}
fn split_eight(line: u32, depth: u32, exponent: i32, first: vec4f, second: vec4f) {
  let unit = (line * parameters.part_pitch + depth / ${RUN}u * ${2 * RUN}u + depth % ${RUN}u) / 8u;
  split_at(parameters.parts_offset + unit, exponent, first, second);
}
`;

/** Loads of an invocation that do not wait for one another. */
export const UNROLL = 4;

/**
 * Statements that leave the extremes of a workgroup in `largest_of[0]` and `smallest_of[0]`, from those that each
 * invocation has in `most` and `least_less_one`.
 */
export const extremesText: string = wgsl`  largest_of[lane] = max(max(most.x, most.y), max(most.z, most.w));
  smallest_of[lane] = min(min(least_less_one.x, least_less_one.y), min(least_less_one.z, least_less_one.w));
  for (var half = ${WORKGROUP_SIZE / 2}u; half > 0u; half >>= 1u) {
    workgroupBarrier();
    if (lane < half) {
      largest_of[lane] = max(largest_of[lane], largest_of[lane + half]);
      smallest_of[lane] = min(smallest_of[lane], smallest_of[lane + half]);
    }
  }
  workgroupBarrier();`;

/**
 * How rows are read. `quads`: they are whole and aligned vectors of four. `taps`: a row is a filter, channels x taps,
 * and its line taps x padded channels.
 */
export type RowReading = "singles" | "quads" | "taps";

/** Statements of `quad_at`. */
const rowReadings: Readonly<Record<RowReading, string>> = {
  singles: wgsl`  var quad = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (depth + i < parameters.k) { quad[i] = source[base + depth + i]; }
  }
  return quad;`,
  quads: wgsl`  if (depth >= parameters.k) { return vec4f(); }
  return source[(base + depth) / 4u];`,
  taps: wgsl`  var quad = vec4f();
  if (depth >= parameters.k) { return quad; }
  let channel = depth % parameters.padded_channels;
  let tap = depth / parameters.padded_channels;
  for (var i = 0u; i < 4u; i++) {
    if (channel + i < parameters.channels) { quad[i] = source[base + (channel + i) * parameters.taps + tap]; }
  }
  return quad;`,
};

const rowNames: Readonly<Record<RowReading, string>> = { singles: "", quads: "4", taps: "_taps" };

/**
 * For lines that are stored as rows. A workgroup splits one line: it reads it once for the exponent and
 * again, from the cache, for the parts.
 */
export const splitAlongProgram: (reading: RowReading) => Program = memoized((reading: RowReading) =>
  program({
    name: `gemm_split_along${rowNames[reading]}`,
    bindings: {
      source: input(reading === "quads" ? "vec4f" : "f32"), // matrices x lines x k
      parts: output("half8"), // matrices x lines x part_pitch
      exponents: output("i32"), // matrices x lines
    },
    parameters: reading === "taps" ? filterParameters : lineParameters,
    light: true,
    body: wgsl`
${workgroupIndex}
${lineFunctions}
var<workgroup> largest_of: array<u32, ${WORKGROUP_SIZE}>;
var<workgroup> smallest_of: array<u32, ${WORKGROUP_SIZE}>;

/// Four elements of a row that starts at element \`base\`, zeros past its end.
fn quad_at(base: u32, depth: u32) -> vec4f {
${rowReadings[reading]}
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let line = workgroup_index(workgroup, workgroups); // counts through all matrices
  if (line >= parameters.lines * parameters.matrices) { return; }
  let base = parameters.source_offset * ${reading === "quads" ? 4 : 1}u + line / parameters.lines * parameters.step
    + line % parameters.lines * parameters.pitch;
  var most = vec4u();
  var least_less_one = vec4u(0xffffffffu);
  for (var depth = 4u * lane; depth < parameters.k; depth += ${4 * UNROLL * WORKGROUP_SIZE}u) {
${lines(UNROLL, (i) => `    let bits_${i} = bitcast<vec4u>(quad_at(base, depth + ${4 * i * WORKGROUP_SIZE}u)) & vec4u(MAGNITUDE);`)}
${lines(UNROLL, (i) => `    most = max(most, bits_${i});\n    least_less_one = min(least_less_one, bits_${i} - 1u);`)}
  }
${extremesText}
  let exponent = line_exponent(largest_of[0], smallest_of[0]);
  if (lane == 0u) { exponents[parameters.exponents_offset + line] = exponent; }
  if (exponent == ${WIDE}) { return; }
  for (var depth = 8u * lane; depth < parameters.part_pitch / 2u; depth += ${8 * WORKGROUP_SIZE}u) {
    split_eight(line, depth, exponent, quad_at(base, depth), quad_at(base, depth + 4u));
  }
}
`,
  }),
);

/**
 * For lines that are stored as columns: the largest and the smallest magnitude in EXTENTS_DEPTH rows of
 * them. A workgroup does ACROSS_LINES lines, so that neighbours read neighbours.
 */
export const extentsProgram: Program = program({
  name: "gemm_split_extents",
  bindings: {
    source: input("f32"), // matrices x k x lines
    extents: output("u32"), // matrices x chunks x 2 x lines: the largest, then the smallest but zero less one
  },
  parameters: lineParameters,
  light: true,
  body: wgsl`
${workgroupIndex}
const SLICES = ${WORKGROUP_SIZE / ACROSS_LINES}u;
var<workgroup> largest_of: array<u32, ${WORKGROUP_SIZE}>;
var<workgroup> smallest_of: array<u32, ${WORKGROUP_SIZE}>;

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
  let line_groups = (parameters.lines + ${ACROSS_LINES - 1}u) / ${ACROSS_LINES}u;
  let chunks = (parameters.k + ${EXTENTS_DEPTH - 1}u) / ${EXTENTS_DEPTH}u;
  let chunk = group / line_groups; // counts through all matrices
  if (chunk >= chunks * parameters.matrices) { return; }
  let line = group % line_groups * ${ACROSS_LINES}u + lane % ${ACROSS_LINES}u;
  let first = chunk % chunks * ${EXTENTS_DEPTH}u;
  let base = parameters.source_offset + chunk / chunks * parameters.step + line;
  var largest = 0u;
  var smallest_less_one = 0xffffffffu;
  if (line < parameters.lines) {
    let last = min(parameters.k, first + ${EXTENTS_DEPTH}u) - 1u;
    for (var depth = first + lane / ${ACROSS_LINES}u; depth <= last; depth += ${UNROLL}u * SLICES) {
${lines(UNROLL, (i) => `      let bits_${i} = bitcast<u32>(source[base + min(depth + ${i}u * SLICES, last) * parameters.pitch]) & 0x7fffffffu;`)}
${lines(UNROLL, (i) => `      largest = max(largest, bits_${i});\n      smallest_less_one = min(smallest_less_one, bits_${i} - 1u);`)}
    }
  }
  largest_of[lane] = largest;
  smallest_of[lane] = smallest_less_one;
  workgroupBarrier();
  if (lane >= ${ACROSS_LINES}u || line >= parameters.lines) { return; }
  for (var slice = 1u; slice < SLICES; slice++) {
    largest = max(largest, largest_of[slice * ${ACROSS_LINES}u + lane]);
    smallest_less_one = min(smallest_less_one, smallest_of[slice * ${ACROSS_LINES}u + lane]);
  }
  let at = parameters.extents_offset + chunk * 2u * parameters.lines + line;
  extents[at] = largest;
  extents[at + parameters.lines] = smallest_less_one;
}
`,
});

/**
 * For lines that are stored as columns, after `extentsProgram`: a workgroup transposes ACROSS_LINES lines
 * of ACROSS_DEPTH elements, and one invocation splits eight elements of one line.
 */
export const splitAcrossProgram: Program = program({
  name: "gemm_split_across",
  bindings: {
    source: input("f32"), // matrices x k x lines
    extents: input("u32"),
    parts: output("half8"), // matrices x lines x part_pitch
    exponents: output("i32"), // matrices x lines
  },
  parameters: lineParameters,
  light: true,
  body: wgsl`
${workgroupIndex}
${lineFunctions}
const SLICES = ${WORKGROUP_SIZE / ACROSS_LINES}u;
const PITCH = ${ACROSS_LINES + 1}u;
var<workgroup> largest_of: array<u32, ${WORKGROUP_SIZE}>;
var<workgroup> smallest_of: array<u32, ${WORKGROUP_SIZE}>;
var<workgroup> square: array<f32, ${ACROSS_DEPTH * (ACROSS_LINES + 1)}>;

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
  let line_groups = (parameters.lines + ${ACROSS_LINES - 1}u) / ${ACROSS_LINES}u;
  let stretches = (parameters.part_pitch / 2u + ${ACROSS_DEPTH - 1}u) / ${ACROSS_DEPTH}u;
  let chunks = (parameters.k + ${EXTENTS_DEPTH - 1}u) / ${EXTENTS_DEPTH}u;
  let stretch = group / line_groups; // counts through all matrices
  if (stretch >= stretches * parameters.matrices) { return; }
  let matrix = stretch / stretches;
  let first_line = group % line_groups * ${ACROSS_LINES}u;
  let first_depth = stretch % stretches * ${ACROSS_DEPTH}u;

  // Neighbouring invocations at neighbouring lines, past the last one at that.
  let slice = lane / ${ACROSS_LINES}u;
  let loaded_line = min(first_line + lane % ${ACROSS_LINES}u, parameters.lines - 1u);
  let base = parameters.source_offset + matrix * parameters.step + loaded_line;
  for (var i = slice; i < ${ACROSS_DEPTH}u; i += SLICES) {
    var value = 0.0;
    if (first_depth + i < parameters.k) { value = source[base + (first_depth + i) * parameters.pitch]; }
    square[i * PITCH + lane % ${ACROSS_LINES}u] = value;
  }
  var largest = 0u;
  var smallest_less_one = 0xffffffffu;
  let extents_base = parameters.extents_offset + matrix * chunks * 2u * parameters.lines + loaded_line;
  for (var chunk = slice; chunk < chunks; chunk += SLICES) {
    let at = extents_base + chunk * 2u * parameters.lines;
    largest = max(largest, extents[at]);
    smallest_less_one = min(smallest_less_one, extents[at + parameters.lines]);
  }
  largest_of[lane] = largest;
  smallest_of[lane] = smallest_less_one;
  workgroupBarrier();

  // Neighbouring invocations at neighbouring elements of a line.
  let line_in_group = lane / ${ACROSS_DEPTH / 8}u;
  let line = first_line + line_in_group;
  let depth = lane % ${ACROSS_DEPTH / 8}u * 8u;
  if (line >= parameters.lines) { return; }
  largest = 0u;
  smallest_less_one = 0xffffffffu;
  for (var i = 0u; i < SLICES; i++) {
    largest = max(largest, largest_of[i * ${ACROSS_LINES}u + line_in_group]);
    smallest_less_one = min(smallest_less_one, smallest_of[i * ${ACROSS_LINES}u + line_in_group]);
  }
  let exponent = line_exponent(largest, smallest_less_one);
  let line_of_all = matrix * parameters.lines + line;
  if (first_depth + depth == 0u) { exponents[parameters.exponents_offset + line_of_all] = exponent; }
  if (exponent == ${WIDE} || first_depth + depth >= parameters.part_pitch / 2u) { return; }
  var values: array<f32, 8>;
  for (var i = 0u; i < 8u; i++) { values[i] = square[(depth + i) * PITCH + line_in_group]; }
  split_eight(
    line_of_all, first_depth + depth, exponent,
    vec4f(values[0], values[1], values[2], values[3]), vec4f(values[4], values[5], values[6], values[7]));
}
`,
});

/** For each `block` lines of a matrix (the last block may have fewer): 1 if one of them is wide, otherwise 0. */
export const wideBlocksProgram: (block: number) => Program = memoized((block: number) =>
  program({
    name: `gemm_split_blocks_${block}`,
    bindings: { exponents: input("i32"), blocks: output("u32") }, // matrices x lines; matrices x blocks
    parameters: { lines: "u32", matrices: "u32" },
    light: true,
    body: wgsl`
${workgroupIndex}
var<workgroup> wide: array<u32, ${block}>;

@compute @workgroup_size(${block})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups);
  let blocks_of_matrix = (parameters.lines + ${block - 1}u) / ${block}u;
  if (index >= blocks_of_matrix * parameters.matrices) { return; }
  let line = min(index % blocks_of_matrix * ${block}u + lane, parameters.lines - 1u);
  let at = parameters.exponents_offset + index / blocks_of_matrix * parameters.lines + line;
  wide[lane] = select(0u, 1u, exponents[at] == ${WIDE});
  for (var half = ${block / 2}u; half > 0u; half >>= 1u) {
    workgroupBarrier();
    if (lane < half) { wide[lane] |= wide[lane + half]; }
  }
  if (lane == 0u) { blocks[parameters.blocks_offset + index] = wide[0]; }
}
`,
  }),
);
