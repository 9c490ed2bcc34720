import type { ArgReduceKind } from "@backplane/core";
import {
  type ComputedType,
  type ElementLayout,
  input,
  layouts,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { magnitudeFunction } from "../elementwise/index.js";
import { firstOfRow, placeInRow } from "../rows/index.js";

/*
 * An invocation keeps the best element that it has read and its place. Where invocations meet, elements are keys:
 * whole numbers whose order is that of the elements, best last, with NaN at the top. Of two equal keys the lower
 * place wins, so that the result does not depend on how the elements are shared out.
 *
 * Implementations of WGSL may assume that there is no NaN. So whether an invocation has read one is told from the
 * bits of the elements; it then reads its elements again to find the first.
 */

export type LaneCount = 1 | 2 | 4 | 8 | 16 | 32 | 64 | 128 | 256;
export const laneCounts: readonly LaneCount[] = [1, 2, 4, 8, 16, 32, 64, 128, WORKGROUP_SIZE];

export type ArgReduceVector = 1 | 4 | 8;

/** The properties of one generated kernel; everything else is a parameter. */
export interface ArgReduceTile {
  readonly kind: ArgReduceKind;
  readonly dtype: ComputedType;
  /** Neighbouring invocations read neighbours in a row, or neighbouring rows; vectors lie likewise. */
  readonly along: "length" | "inner";
  /** Elements of a load. 8: of f16, in rows, as two vectors of four. */
  readonly vector: ArgReduceVector;
  /** Invocations that share a row. */
  readonly lanes: LaneCount;
  /** Pairs (key, place), or places alone. */
  readonly result: Result;
}

export interface JoinTile {
  readonly lanes: LaneCount;
  readonly result: Result;
}

export type Result = "pairs" | "places";

/** Loads under way together. */
const UNROLL: Readonly<Record<ArgReduceTile["vector"], number>> = { 1: 8, 4: 4, 8: 4 };

const NOWHERE = "0xffffffffu";

type Parameter = "rows" | "length" | "inner" | "segment_length" | "row_blocks" | "first_place";

const parameterTypes = {
  rows: "u32",
  length: "u32",
  inner: "u32",
  segment_length: "u32",
  row_blocks: "u32",
  first_place: "u32",
} as const;

/**
 * output[segment * rows + row] = the first best element of the row in the segment. A workgroup does one segment of
 * `SLOTS` neighbouring rows (or vectors of rows). Rows, length and inner count loads along what these lie along.
 */
export function argReduceProgram(tile: ArgReduceTile): Program<"data" | "output", Parameter> {
  const { kind, dtype, along, vector, lanes, result } = tile;
  const { single, quad, block, value, functions } = layouts[dtype];
  const width = vector === 1 ? 1 : 4;
  const size = along === "inner" ? width : 1;
  const type = { value: vectorOf(value, width), words: vectorOf("u32", width) };
  const isFloat = value === "f32";
  const count = UNROLL[vector];
  /** Values of a load, whose places count values. */
  const each = vector / width;
  const place = (index: string) => placeInRow(along, index);
  const valuesOf = (load: string, index: string) =>
    Array.from({ length: each }, (_, i) => ({
      value: each === 1 ? load : `${load}[${i}]`,
      at: `${type.words}(${each === 1 ? index : `${each}u * (${index}) + ${i}u`})`,
    }));
  const takeAll = (values: ReturnType<typeof valuesOf>) =>
    values
      .map(({ value, at }) => `take(${value}, ${at}, &best, &place${isFloat ? ", &seen" : ""});`)
      .join(" ");
  const take = (load: string, index: string) => takeAll(valuesOf(load, index));
  const begin = (load: string) => {
    const [first, ...rest] = valuesOf(load, "own");
    return `best = ${first!.value};${isFloat ? " seen = magnitude(best);" : ""} ${takeAll(rest)}`;
  };
  return program({
    name: `${kind}_${dtype}_${along}_${vector}_${lanes}_${result}`,
    bindings: { data: input({ 1: single, 4: quad, 8: block }[vector]), output: output(storageOf[result]) },
    parameters: parameterTypes,
    body: wgsl`
${workgroupIndex}
${functions}
${meeting(along, lanes, size)}
${writing(result, size)}

${loadFunction(dtype, value, vector)}

fn take(
  value: ${type.value},
  index: ${type.words},
  best: ptr<function, ${type.value}>,
  place: ptr<function, ${type.words}>,
${isFloat ? `  seen: ptr<function, ${type.words}>,` : ""}
) {
  let better = value ${kind === "argMax" ? ">" : "<"} *best;
  *best = select(*best, value, better);
  *place = select(*place, index, better);
${isFloat ? `  *seen = max(*seen, magnitude(value));` : ""}
}

${isFloat ? magnitudeFunction(type.value, type.words) : ""}

/// Of numbers: greater for better ones.
fn key_of(value: ${type.value}) -> ${type.words} {
  let bits = bitcast<${type.words}>(value);
  ${keys[value](type.words)}
  return ${kind === "argMax" ? "key" : "~key"};
}

/// The best element of a lane, from \`start + reducer\` on, and its place.
fn search(first: u32, start: u32, end: u32, reducer: u32) -> Pair {
  let own = start + reducer;
  if (own >= end) { return NOTHING; }
  var best: ${type.value};
  var place = ${type.words}(${each === 1 ? "own" : `${each}u * own`});
  ${isFloat ? `var seen: ${type.words};` : ""}
  var next = own + LANES;
  if (own + ${count - 1}u * LANES < end) {
    // As in the loop below, which has nothing left to do for short rows.
${lines(count, (i) => `    let value_${i} = load(${place(`own + ${i}u * LANES`)});`)}
    ${begin("value_0")}
${lines(count - 1, (i) => `    ${take(`value_${i + 1}`, `own + ${i + 1}u * LANES`)}`)}
    next = own + ${count}u * LANES;
  } else {
    let value = load(${place("own")});
    ${begin("value")}
  }
  for (; next + ${count - 1}u * LANES < end; next += ${count}u * LANES) {
    // All loads before their first use, so that they are under way together.
${lines(count, (i) => `    let value_${i} = load(${place(`next + ${i}u * LANES`)});`)}
${lines(count, (i) => `    ${take(`value_${i}`, `next + ${i}u * LANES`)}`)}
  }
  for (; next < end; next += LANES) {
    let value = load(${place("next")});
    ${take("value", "next")}
  }
  var key = key_of(best);
${
  isFloat
    ? wgsl`
  if (${vector === 1 ? "" : "any"}(seen > ${type.words}(0x7f800000u))) {
    var nan = ${type.words}(${NOWHERE});
    for (next = own; next < end; next += LANES) {
      let value = load(${place("next")});
${valuesOf("value", "next")
  .map(({ value, at }) => {
    const spoilt = `magnitude(${value}) > ${type.words}(0x7f800000u)`;
    return `      nan = min(nan, select(${type.words}(${NOWHERE}), ${at}, ${spoilt}));`;
  })
  .join("\n")}
    }
    let found = nan != ${type.words}(${NOWHERE});
    key = select(key, ${type.words}(${NOWHERE}), found);
    place = select(place, nan, found);
  }`
    : ""
}
  return ${
    vector !== 1 && along === "length"
      ? wgsl`better_of(
    better_of(Pair(key.x, 4u * place.x), Pair(key.y, 4u * place.y + 1u)),
    better_of(Pair(key.z, 4u * place.z + 2u), Pair(key.w, 4u * place.w + 3u)))`
      : "Pair(key, place)"
  };
}

${main(along, "search(first, start, end, reducer)")}
`,
  });
}

/** output[row] = the best of the pairs data[segment * rows + row]; length counts segments, and inner is rows. */
export function joinProgram({ lanes, result }: JoinTile): Program<"data" | "output", Parameter> {
  return program({
    name: `arg_reduce_join_${lanes}_${result}`,
    bindings: { data: input("vec2u"), output: output(storageOf[result]) },
    parameters: parameterTypes,
    body: wgsl`
${workgroupIndex}
${meeting("inner", lanes, 1)}
${writing(result, 1)}

fn join(first: u32, start: u32, end: u32, reducer: u32) -> Pair {
  var best = NOTHING;
  for (var next = start + reducer; next < end; next += LANES) {
    let pair = data[parameters.data_offset + first + next * parameters.inner];
    best = better_of(best, Pair(pair.x, pair.y));
  }
  return best;
}

${main("inner", "join(first, start, end, reducer)")}
`,
  });
}

const storageOf = { pairs: "vec2u", places: "i32" } as const;

function vectorOf(scalar: string, size: 1 | 4): string {
  return size === 1 ? scalar : `vec4<${scalar}>`;
}

/** Statements that make `key` of `bits`. Zeros are equal; negative floats are in the order of the inverted bits. */
const keys: Readonly<Record<ElementLayout["value"], (words: string) => string>> = {
  f32: (words) => wgsl`
  let sign = ${words}(0x80000000u);
  let plain = select(bits, ${words}(0u), bits == sign);
  let key = select(plain ^ sign, ~plain, plain >= sign);`,
  i32: (words) => `let key = bits ^ ${words}(0x80000000u);`,
  u32: () => "let key = bits;",
};

/** The number `place` counts loads from the start of the region. Of two vectors, each is a column of a matrix. */
function loadFunction(dtype: ComputedType, value: string, vector: ArgReduceVector): string {
  const { load, unpacked } = layouts[dtype];
  const at = "(parameters.data_offset + place)";
  if (vector === 1) return `fn load(place: u32) -> ${value} { return ${load("data", at)}; }`;
  const [type, values] =
    vector === 4
      ? [vectorOf(value, 4), unpacked("block")]
      : [`mat2x4<${value}>`, `mat2x4<${value}>(${unpacked("block.xy")}, ${unpacked("block.zw")})`];
  return wgsl`
fn load(place: u32) -> ${type} {
  let block = data[${at}];
  return ${values};
}`;
}

/** Pairs, and how invocations that share a row find the best of theirs, which the first of them gets. */
function meeting(along: ArgReduceTile["along"], lanes: LaneCount, size: 1 | 4): string {
  const words = vectorOf("u32", size);
  const slots = WORKGROUP_SIZE / lanes;
  return wgsl`
const LANES = ${lanes}u;
const SLOTS = ${slots}u;

struct Pair { key: ${words}, place: ${words} }

const NOTHING = Pair(${words}(0u), ${words}(${NOWHERE}));

fn better_of(a: Pair, b: Pair) -> Pair {
  let second = (b.key > a.key) | ((b.key == a.key) & (b.place < a.place));
  return Pair(select(a.key, b.key, second), select(a.place, b.place, second));
}

${
  lanes === 1
    ? "fn best_of(slot: u32, reducer: u32, own: Pair) -> Pair { return own; }"
    : wgsl`
var<workgroup> pairs: array<Pair, ${WORKGROUP_SIZE}>;

fn best_of(slot: u32, reducer: u32, own: Pair) -> Pair {
  let at = ${along === "length" ? "slot * LANES + reducer" : "reducer * SLOTS + slot"};
  var best = own;
  pairs[at] = best;
  for (var half = LANES / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (reducer < half) {
      best = better_of(best, pairs[at + half * ${along === "length" ? "1u" : "SLOTS"}]);
      pairs[at] = best;
    }
  }
  return best;
}`
}
`;
}

function writing(result: Result, size: 1 | 4): string {
  const of = (value: string, i: number) => (size === 1 ? value : `${value}[${i}]`);
  const text = (i: number) =>
    result === "pairs"
      ? `vec2<u32>(${of("best.key", i)}, ${of("best.place", i)} + parameters.first_place)`
      : `i32(${of("best.place", i)} + parameters.first_place)`;
  return wgsl`
fn write(index: u32, best: Pair) {
  let at = parameters.output_offset + ${size}u * index;
${lines(size, (i) => `  output[at + ${i}u] = ${text(i)};`)}
}
`;
}

function main(along: ArgReduceTile["along"], search: string): string {
  return wgsl`
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let slot = ${along === "length" ? "lane / LANES" : "lane % SLOTS"};
  let reducer = ${along === "length" ? "lane % LANES" : "lane / SLOTS"};
  let group = workgroup_index(workgroup, workgroups);
  let segment = group / parameters.row_blocks;
  let row = (group - segment * parameters.row_blocks) * SLOTS + slot;
  let start = segment * parameters.segment_length;
  let end = select(start, min(start + parameters.segment_length, parameters.length), row < parameters.rows);
  let first = ${firstOfRow[along]};
  let best = best_of(slot, reducer, ${search});
  if (reducer == 0u && row < parameters.rows && start < parameters.length) {
    write(segment * parameters.rows + row, best);
  }
}`;
}
