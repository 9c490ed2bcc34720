import {
  type ElementType,
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

/**
 * What moves at once: 16 bytes or a word of a row, whatever its elements; or one element, of which two or four share a
 * word that one invocation writes.
 */
export type Unit = "block" | "word" | "half" | "byte";

interface UnitForm {
  readonly binding: ElementType;
  readonly wgsl: "u32" | "vec4<u32>";
  /** Units that one invocation writes: `WORKGROUP_SIZE` apart, or those of one word. Their loads are under way together. */
  readonly perInvocation: number;
  /** log2 of the units that share a word. */
  readonly wordShift: 0 | 1 | 2;
}

export const unitForms: Readonly<Record<Unit, UnitForm>> = {
  block: { binding: "vec4u", wgsl: "vec4<u32>", perInvocation: 4, wordShift: 0 },
  word: { binding: "u32", wgsl: "u32", perInvocation: 4, wordShift: 0 },
  half: { binding: "half", wgsl: "u32", perInvocation: 2, wordShift: 1 },
  byte: { binding: "byte", wgsl: "u32", perInvocation: 4, wordShift: 2 },
};

export type GatherParameter =
  | ("n" | "length" | "count" | "inner")
  | ("outer_stride" | "axis_stride" | "inner_stride")
  | ("first" | "keeps");

/**
 * output[o, j, i] = source[o, index - first, i] of its index, if that is below length. Otherwise 0, or, with `keeps`, what
 * was there. n counts units of the output, and inner those of a row.
 *
 * No place is read but by an index in range, whether or not the device would guard it.
 */
export function gatherProgram(unit: Unit): Program<"source" | "indices" | "output", GatherParameter> {
  const { binding, wgsl: type, perInvocation, wordShift } = unitForms[unit];
  return program({
    name: `gather_${unit}`,
    bindings: { source: input(binding), indices: input("i32"), output: output(binding) },
    parameters: {
      ...{ n: "u32", length: "u32", count: "u32", inner: "u32" },
      ...{ outer_stride: "u32", axis_stride: "u32", inner_stride: "u32" },
      ...{ first: "u32", keeps: "u32" },
    },
    light: true,
    body: wgsl`
${workgroupIndex}

struct Place {
  slab: u32,
  i: u32,
  index: u32,
}

/// Where a unit of the output is, and its index, which is below length if it is in range.
fn place_of(unit: u32) -> Place {
  let row = unit / parameters.inner;
  let i = unit - row * parameters.inner;
  let o = row / parameters.count;
  let j = row - o * parameters.count;
  let at = o * parameters.outer_stride + j * parameters.axis_stride + i * parameters.inner_stride;
  let index = indices[parameters.indices_offset + at];
  // A difference of a negative one might wrap round into the range.
  return Place(o, i, select(u32(index) - parameters.first, 0xffffffffu, index < 0));
}

fn source_of(place: Place) -> u32 {
  let row = place.slab * parameters.length + place.index;
  return parameters.source_offset + row * parameters.inner + place.i;
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
${wordShift === 0 ? wholeWords(perInvocation, type) : sharedWords(perInvocation, wordShift)}
}
`,
  });
}

/** Units of whole words: all indices are loaded before the first element, and all elements before the first store. */
function wholeWords(count: number, type: string): string {
  return wgsl`
  let unit = group * ${count * WORKGROUP_SIZE}u + lane;
${lines(
  count,
  (k) => `  let unit_${k} = unit + ${k * WORKGROUP_SIZE}u;
  var place_${k} = Place(0u, 0u, 0xffffffffu);
  if (unit_${k} < parameters.n) { place_${k} = place_of(unit_${k}); }`,
)}
${lines(
  count,
  (k) => `  let found_${k} = place_${k}.index < parameters.length;
  var value_${k} = ${type}(0u);
  if (found_${k}) { value_${k} = source[source_of(place_${k})]; }`,
)}
${lines(
  count,
  (k) =>
    `  if (unit_${k} < parameters.n && (found_${k} || parameters.keeps == 0u)) { output[parameters.output_offset + unit_${k}] = value_${k}; }`,
)}`;
}

/** The elements of one word, some of which may lie outside the output. */
function sharedWords(count: number, wordShift: number): string {
  const bits = 32 / count;
  return wgsl`
  let word = (parameters.output_offset >> ${wordShift}u) + group * ${WORKGROUP_SIZE}u + lane;
  if (${count}u * word >= parameters.output_offset + parameters.n) { return; }
${lines(
  count,
  (k) => `  // Wraps round to a large number in front of the region.
  let unit_${k} = ${count}u * word + ${k}u - parameters.output_offset;
  var place_${k} = Place(0u, 0u, 0xffffffffu);
  if (unit_${k} < parameters.n) { place_${k} = place_of(unit_${k}); }`,
)}
  var result = 0u;
  var keep = 0u;
${lines(
  count,
  (k) => `  if (place_${k}.index < parameters.length) {
    let at = source_of(place_${k});
    let value = source[at >> ${wordShift}u] >> (${bits}u * (at & ${count - 1}u));
    result |= (value & ${2 ** bits - 1}u) << ${bits * k}u;
  } else if (unit_${k} >= parameters.n || parameters.keeps != 0u) {
    keep |= ${2 ** bits - 1}u << ${bits * k}u;
  }`,
)}
  if (keep != 0u) { result |= output[word] & keep; }
  output[word] = result;`;
}
