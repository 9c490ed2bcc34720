import type { FloatType, RopeKind } from "@backplane/core";
import {
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

/** Heads of one invocation, which turn by the same angles. Their loads are under way together. */
export const HEADS = 4;

/** What the text of a program depends on. */
export interface RopeTile {
  readonly kind: RopeKind;
  readonly dtype: FloatType;
  /** The output is the input, bound once. */
  readonly over: boolean;
  /** Positions are read. */
  readonly listed: boolean;
}

export type RopeBinding = "source" | "output" | "cosines" | "sines" | "positions";

const operands = (tile: RopeTile, element: "quad" | "single", table: "vec4f" | "f32") =>
  ({
    ...(tile.over ? {} : { source: input(floatLayouts[tile.dtype][element]) }),
    output: output(floatLayouts[tile.dtype][element]),
    ...{ cosines: input(table), sines: input(table) },
    ...(tile.listed ? { positions: input("i32") } : {}),
  }) as Record<RopeBinding, ReturnType<typeof input>>;

const nameOf = ({ kind, dtype, over, listed }: RopeTile) =>
  `${kind}_${dtype}${over ? "_over" : ""}${listed ? "_listed" : ""}`;

/** The position of a row; one that is not in the tables, negative ones too, is not below `length`. */
const positionOf = ({ listed }: RopeTile) => wgsl`
fn position_of(b: u32, r: u32) -> u32 {
  return ${listed ? "u32(positions[parameters.positions_offset + b * parameters.position_stride + r])" : "parameters.start + r"};
}
`;

const common = {
  heads: "u32",
  rows: "u32",
  length: "u32",
  start: "u32",
  position_stride: "u32",
  sign: "f32",
  input_batch: "u32",
  input_head: "u32",
  input_row: "u32",
  output_batch: "u32",
  output_head: "u32",
  output_row: "u32",
} as const;

export type RopeParameter = keyof typeof common;

/** How a kind finds its pairs in quads of four elements, and its angles in quads of a table. */
interface QuadText {
  /** Quads of which an invocation turns all elements. */
  readonly quads: 1 | 2;
  /** Places of the quads of a unit among those of a row; `far` only if there are two. */
  readonly near: string;
  readonly far: string;
  /** WGSL: the angles of a unit, of the quad of a table that `at` returns. */
  angles(table: string): string;
  /** WGSL: statements that turn `a` (and `b`) into `to_near` (and `to_far`) by c and s. */
  readonly turned: string;
}

const quadTexts: Readonly<Record<RopeKind, QuadText>> = {
  halves: {
    ...{ quads: 2, near: "unit", far: "unit + parameters.pair_units" },
    angles: (table) => `${table}[parameters.${table}_offset + position * parameters.pair_units + unit]`,
    turned: wgsl`let to_near = a * c - b * s;
      let to_far = a * s + b * c;`,
  },
  // One quad has two pairs: neighbouring invocations read neighbouring quads, and share those of the tables.
  neighbours: {
    ...{ quads: 1, near: "unit", far: "" },
    angles: (table) =>
      `half_of(${table}[parameters.${table}_offset + position * (parameters.pair_units >> 1u) + (unit >> 1u)], unit)`,
    turned: wgsl`let u = a.xz * c - a.yw * s;
      let v = a.xz * s + a.yw * c;
      let to_near = vec4f(u.x, v.x, u.y, v.y);`,
  },
};

/** Quads that an invocation turns, or copies, of each head. */
export function quadsOfUnit(kind: RopeKind): 1 | 2 {
  return quadTexts[kind].quads;
}

/**
 * Rows of whole quads of four elements, of which strides count too. An invocation takes a unit, the quads of which it
 * turns or copies, of `HEADS` heads. `units`: of a row; `pair_units` of them are turned.
 */
export function quadsProgram(
  tile: RopeTile,
): Program<RopeBinding, RopeParameter | "units" | "pair_units" | "row_quads" | "groups" | "total"> {
  const { kind, dtype, over } = tile;
  const layout = floatLayouts[dtype];
  const { quads, near, far, angles, turned } = quadTexts[kind];
  const bindings = operands(tile, "quad", "vec4f");
  const source = over ? "output" : "source";
  const heads = <Line extends string>(line: (k: number) => Line) => lines(HEADS, line);
  const angle = quads === 2 ? "vec4f" : "vec2f";
  return program({
    name: `rope_quads_${nameOf(tile)}`,
    bindings,
    parameters: {
      ...common,
      ...{ units: "u32", pair_units: "u32", row_quads: "u32", groups: "u32", total: "u32" },
    },
    light: true,
    body: wgsl`
${workgroupIndex}
${layout.functions}
${positionOf(tile)}
fn loaded(at: u32) -> vec4f {
  let quad = ${source}[at];
  return ${layout.unpacked("quad")};
}

fn store(at: u32, quad: vec4f) {
  output[at] = ${layout.packed("quad")};
}
${quads === 1 ? "\nfn half_of(quad: vec4f, half: u32) -> vec2f { return select(quad.xy, quad.zw, (half & 1u) == 1u); }\n" : ""}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (index >= parameters.total) { return; }
  let line = index / parameters.units;
  let unit = index - line * parameters.units;
  let slab = line / parameters.rows;
  let r = line - slab * parameters.rows;
  let b = slab / parameters.groups;
  let head = (slab - b * parameters.groups) * ${HEADS}u;
  let last = parameters.heads - 1u;
  let input_at = parameters.${source}_offset + b * parameters.input_batch + r * parameters.input_row;
  let output_at = parameters.output_offset + b * parameters.output_batch + r * parameters.output_row;
  if (unit < parameters.pair_units) {
    let position = position_of(b, r);
    var c = ${angle}(0.0);
    var s = ${angle}(0.0);
    if (position < parameters.length) {
      c = ${angles("cosines")};
      s = parameters.sign * ${angles("sines")};
    }
${heads(
  (k) => `    let in_${k} = input_at + min(head + ${k}u, last) * parameters.input_head;
    let a_${k} = loaded(in_${k} + ${near});
${quads === 2 ? `    let b_${k} = loaded(in_${k} + ${far});` : ""}`,
)}
${heads(
  (k) => `    if (head + ${k}u <= last) {
      let out = output_at + (head + ${k}u) * parameters.output_head;
      let a = a_${k};
${quads === 2 ? `      let b = b_${k};` : ""}
      ${turned}
      store(out + ${near}, to_near);
${quads === 2 ? `      store(out + ${far}, to_far);` : ""}
    }`,
)}
    return;
  }
${
  over
    ? ""
    : `  for (var k = 0u; k < ${HEADS}u && head + k <= last; k++) {
    let start_at = input_at + (head + k) * parameters.input_head;
    let to = output_at + (head + k) * parameters.output_head;
${lines(quads, (i) => `    if (${quads}u * unit + ${i}u < parameters.row_quads) { output[to + ${quads}u * unit + ${i}u] = source[start_at + ${quads}u * unit + ${i}u]; }`)}
  }`
}
}
`,
  });
}

/**
 * Any rows, in f32: an invocation takes a pair, or an element that is copied. `units`: of a row; `pairs` of them are pairs.
 */
export function pairsProgram(
  tile: RopeTile,
): Program<RopeBinding, RopeParameter | "units" | "pairs" | "total"> {
  const { kind, over } = tile;
  const from = over ? "output" : "source";
  return program({
    name: `rope_pairs_${nameOf(tile)}`,
    bindings: operands(tile, "single", "f32"),
    parameters: { ...common, ...{ units: "u32", pairs: "u32", total: "u32" } },
    light: true,
    body: wgsl`
${workgroupIndex}
${positionOf(tile)}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (index >= parameters.total) { return; }
  let line = index / parameters.units;
  let unit = index - line * parameters.units;
  let slab = line / parameters.rows;
  let r = line - slab * parameters.rows;
  let b = slab / parameters.heads;
  let h = slab - b * parameters.heads;
  let start_at = parameters.${from}_offset + b * parameters.input_batch + h * parameters.input_head + r * parameters.input_row;
  let to = parameters.output_offset + b * parameters.output_batch + h * parameters.output_head + r * parameters.output_row;
  if (unit >= parameters.pairs) {
    let rest = unit + parameters.pairs;
    output[to + rest] = ${from}[start_at + rest];
    return;
  }
  let near = ${kind === "halves" ? "unit" : "2u * unit"};
  let far = ${kind === "halves" ? "unit + parameters.pairs" : "near + 1u"};
  let position = position_of(b, r);
  var c = 0.0;
  var s = 0.0;
  if (position < parameters.length) {
    let at = position * parameters.pairs + unit;
    c = cosines[parameters.cosines_offset + at];
    s = parameters.sign * sines[parameters.sines_offset + at];
  }
  let x = ${from}[start_at + near];
  let y = ${from}[start_at + far];
  output[to + near] = x * c - y * s;
  output[to + far] = x * s + y * c;
}
`,
  });
}

/** Rows of an axis table: extent, stride of the output, stride of the input, and which axis it is (0 batch, 1 head, 2 row). */
const AXES = 3;

/**
 * Any rows, in f16, of an input elsewhere: an invocation writes a word of the output. The place of each half is found from
 * the strides of the output, the largest first, each of which is longer than the smaller ones reach.
 */
export function wordsProgram(
  tile: RopeTile,
): Program<
  RopeBinding,
  "axes" | "size" | "pairs" | "reach" | "length" | "start" | "position_stride" | "sign"
> {
  const { kind } = tile;
  return program({
    name: `rope_words_${nameOf(tile)}`,
    bindings: operands(tile, "single", "f32"),
    parameters: {
      ...{ size: "u32", pairs: "u32", reach: "u32", length: "u32", start: "u32", position_stride: "u32" },
      ...{ sign: "f32", axes: { rows: AXES } },
    },
    light: true,
    body: wgsl`
${workgroupIndex}
${floatLayouts.f16.functions}
${positionOf(tile)}
fn loaded(at: u32) -> f32 {
  return half_at(source[at >> 1u], at);
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let word = (parameters.output_offset >> 1u) + workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (2u * word >= parameters.output_offset + parameters.reach) { return; }
  var bits = output[word];
  let before = bits;
  for (var half = 0u; half < 2u; half++) {
    // Wraps round to a large number in front of the region.
    var rest = 2u * word + half - parameters.output_offset;
    if (rest >= parameters.reach) { continue; }
    var start_at = parameters.source_offset;
    var places = vec3u(0u);
    for (var axis = 0u; axis < ${AXES}u; axis++) {
      let row = parameters.axes[axis];
      let place = min(rest / row.y, row.x - 1u);
      rest -= place * row.y;
      start_at += place * row.z;
      places[row.w] = place;
    }
    if (rest >= parameters.size) { continue; }
    if (rest >= 2u * parameters.pairs) {
      // Bit by bit.
      let at = start_at + rest;
      let kept = (source[at >> 1u] >> (16u * (at & 1u))) & 0xffffu;
      bits = (bits & ~(0xffffu << (16u * half))) | (kept << (16u * half));
      continue;
    }
    let is_second = ${kind === "halves" ? "rest >= parameters.pairs" : "(rest & 1u) == 1u"};
    let pair = ${kind === "halves" ? "select(rest, rest - parameters.pairs, is_second)" : "rest >> 1u"};
    let near = start_at + ${kind === "halves" ? "pair" : "2u * pair"};
    let far = near + ${kind === "halves" ? "parameters.pairs" : "1u"};
    let position = position_of(places.x, places.z);
    var c = 0.0;
    var s = 0.0;
    if (position < parameters.length) {
      let at = position * parameters.pairs + pair;
      c = cosines[parameters.cosines_offset + at];
      s = parameters.sign * sines[parameters.sines_offset + at];
    }
    let x = loaded(near);
    let y = loaded(far);
    bits = with_half(bits, half, select(x * c - y * s, x * s + y * c, is_second));
  }
  if (bits != before) { output[word] = bits; }
}
`,
  });
}
