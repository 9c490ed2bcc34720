import {
  input,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../../program/index.js";
import { partsFunctions } from "../../gemm/split/pass.wgsl.js";
import { UNIT } from "../../tiles/index.js";

/*
 * Splitting operands of attention into pairs of f16, as those of gemm (`gemm/split/pass.wgsl.ts`), but with one
 * exponent e for a whole matrix: all rows of Q that share a key head, or the rows of K, or of V. It is such that the
 * largest element x lies in [2^14, 2^15) after scaling:
 *
 *   x 2^-e = high + 2^-11 low, up to max(2^-23 |x| 2^-e, 2^-36)
 *
 * What is known of a key head are its `facts`: the exponents of Q, K and V, and flags.
 */

/** Of the fourth fact. `WIDE`: the plain kernel computes all rows. `UNEVEN_...`: some numbers have lost bits. */
export const WIDE = 1;
export const UNEVEN_SCORES = 2;
export const UNEVEN_VALUES = 4;

/** Powers of two below the largest of a matrix, down to which numbers keep all but one bit. */
const OCTAVES = 26;

/** Exponents of matrices, and of the factor of scores, lie so far from 0 at most: else products may leave the range of f32. */
const LARGEST_EXPONENT = 80;

/** Elements of a matrix that a workgroup of `extentsProgram` looks at. */
export const EXTENT: number = 32 * WORKGROUP_SIZE;

/** Invocations of `factsProgram`. */
const FACTS_SIZE = 64;

/** Extents are bits of magnitudes: the largest, and the smallest but zero, less one (so that zero is larger than all others). */
const extentFunctions = (size: number): string => wgsl`
const NOTHING = vec2u(0u, 0xffffffffu);
var<workgroup> found: array<vec2u, ${size}>;
fn joined(a: vec2u, b: vec2u) -> vec2u { return vec2u(max(a.x, b.x), min(a.y, b.y)); }
/// Of all invocations.
fn among_all(lane: u32, own: vec2u) -> vec2u {
  found[lane] = own;
  for (var half = ${size / 2}u; half > 0u; half >>= 1u) {
    workgroupBarrier();
    if (lane < half) { found[lane] = joined(found[lane], found[lane + half]); }
  }
  workgroupBarrier();
  let all = found[0];
  workgroupBarrier();
  return all;
}
`;

const rounds = EXTENT / 4 / WORKGROUP_SIZE;

/** The extents of each EXTENT elements of a matrix. */
export const extentsProgram: Program = program({
  name: "attention_split_extents",
  bindings: {
    source: input("vec4f"), // matrices x step
    extents: output("vec2u"), // matrices x chunks
  },
  /** Elements of a matrix, and from one to the next, in fours. */
  parameters: { matrices: "u32", quads: "u32", step: "u32" },
  light: true,
  body: wgsl`
${workgroupIndex}
${extentFunctions(WORKGROUP_SIZE)}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
  let chunks = (parameters.quads + ${EXTENT / 4 - 1}u) / ${EXTENT / 4}u;
  if (group >= chunks * parameters.matrices) { return; }
  let base = parameters.source_offset + group / chunks * parameters.step;
  let first = group % chunks * ${EXTENT / 4}u + lane;
  var most = vec4u();
  var least_less_one = vec4u(0xffffffffu);
${lines(rounds, (i) => `  let bits_${i} = bitcast<vec4u>(source[base + min(first + ${i * WORKGROUP_SIZE}u, parameters.quads - 1u)]) & vec4u(0x7fffffffu);`)}
${lines(rounds, (i) => `  most = max(most, bits_${i});\n  least_less_one = min(least_less_one, bits_${i} - 1u);`)}
  let all = among_all(lane, vec2u(
    max(max(most.x, most.y), max(most.z, most.w)),
    min(min(least_less_one.x, least_less_one.y), min(least_less_one.z, least_less_one.w))));
  if (lane == 0u) { extents[parameters.extents_offset + group] = all; }
}
`,
});

/** The facts of each key head, from the extents of Q, of K and of V. */
export const factsProgram: Program = program({
  name: "attention_split_facts",
  bindings: {
    extents: input("vec2u"), // matrices x query_chunks; matrices x key_chunks, twice
    facts: output("vec4i"), // matrices
  },
  parameters: {
    ...{ matrices: "u32", query_chunks: "u32", key_chunks: "u32" },
    /** That of the scale, times log2(e). */
    scale_exponent: "i32",
  },
  light: true,
  body: wgsl`
${workgroupIndex}
${extentFunctions(FACTS_SIZE)}
fn extent(lane: u32, first: u32, chunks: u32) -> vec2u {
  var own = NOTHING;
  for (var chunk = lane; chunk < chunks; chunk += ${FACTS_SIZE}u) {
    own = joined(own, extents[parameters.extents_offset + first + chunk]);
  }
  return among_all(lane, own);
}
fn exponent_of(extent: vec2u) -> i32 { return select(i32(extent.x >> 23u) - 127 - 14, 0, extent.x == 0u); }
fn flags_of(extent: vec2u, uneven: i32) -> i32 {
  if (extent.x == 0u) { return 0; }
  let bottom = (extent.y + 1u) >> 23u;
  let isUneven = (extent.x >> 23u) - bottom > ${OCTAVES}u;
  // Also where there are NaN or infinities.
  return select(0, uneven, isUneven) | select(0, ${WIDE}, abs(exponent_of(extent)) > ${LARGEST_EXPONENT});
}
@compute @workgroup_size(${FACTS_SIZE})
fn main(${linearBuiltins}) {
  let matrix = workgroup_index(workgroup, workgroups);
  if (matrix >= parameters.matrices) { return; }
  let q = extent(lane, matrix * parameters.query_chunks, parameters.query_chunks);
  let first_of_keys = parameters.matrices * parameters.query_chunks;
  let k = extent(lane, first_of_keys + matrix * parameters.key_chunks, parameters.key_chunks);
  let v = extent(lane, first_of_keys + (parameters.matrices + matrix) * parameters.key_chunks, parameters.key_chunks);
  if (lane > 0u) { return; }
  let of_scores = exponent_of(q) + exponent_of(k);
  let isFar = max(abs(of_scores), abs(of_scores + parameters.scale_exponent)) > ${LARGEST_EXPONENT};
  let flags = flags_of(q, ${UNEVEN_SCORES}) | flags_of(k, ${UNEVEN_SCORES}) | flags_of(v, ${UNEVEN_VALUES}) | select(0, ${WIDE}, isFar);
  facts[parameters.facts_offset + matrix] = vec4i(exponent_of(q), exponent_of(k), exponent_of(v), flags);
}
`,
});

export const powerOfTwo: string = wgsl`
fn power_of_two(exponent: i32) -> f32 { return bitcast<f32>(u32(127 + exponent) << 23u); }
`;

/** Rows of K or V in parts: \`columns\` high ones and as many low ones, zeros past those of the head. */
export const splitRowsProgram: Program = program({
  name: "attention_split_rows",
  bindings: {
    source: input("vec4f"), // matrices x step
    facts: input("vec4i"), // matrices
    parts: output("half8"), // matrices x rows x 2 x columns
  },
  parameters: {
    ...{ matrices: "u32", rows: "u32", head_size: "u32", columns: "u32" },
    /** Elements from one matrix to the next. */
    step: "u32",
    /** Which of the facts is the exponent. */
    fact: "u32",
  },
  light: true,
  body: wgsl`
${workgroupIndex}
${powerOfTwo}
${partsFunctions}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let unit = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let perRow = parameters.columns / ${UNIT}u;
  let row = unit / perRow; // counts through all matrices
  if (row >= parameters.rows * parameters.matrices) { return; }
  let matrix = row / parameters.rows;
  let own = facts[parameters.facts_offset + matrix];
  if ((own.w & ${WIDE}) != 0) { return; }
  let along = unit % perRow;
  var first = vec4f();
  var second = vec4f();
  if (${UNIT}u * along < parameters.head_size) {
    let at = parameters.source_offset + (matrix * parameters.step + row % parameters.rows * parameters.head_size) / 4u + 2u * along;
    let scale = power_of_two(-own[parameters.fact]);
    first = source[at] * scale;
    second = source[at + 1u] * scale;
  }
  let of_first = parts_of(first);
  let of_second = parts_of(second);
  let to = parameters.parts_offset + row * 2u * perRow + along;
  parts[to] = vec4u(of_first.high, of_second.high);
  parts[to + perRow] = vec4u(of_first.low, of_second.low);
}
`,
});
