import {
  type ComputedType,
  linearBuiltins,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { keyTexts } from "./keys.wgsl.js";
import { type Binding, bindingsOf, emission, type Source } from "./lines.wgsl.js";
import { each, eachOf, type TileSize, tileRecords } from "./tile.wgsl.js";

/*
 * The least records of a tile without sorting it: radix selection. For eight bits of the keys at a time, the highest
 * first, the workgroup counts how many keys with the bits found so far have each value of the next ones. That gives
 * those bits of the last key that is wanted. Records below it, and the first ones that equal it, are kept in the order
 * of their places, so that what sorts them later is stable. Counts are sums of whole numbers, so that the order in which
 * invocations add to them does not matter.
 */

/** The properties of one generated kernel; everything else is a parameter. */
export interface LeastTile extends TileSize {
  readonly dtype: ComputedType;
  readonly source: Source;
}

type Parameter = "lines" | "parts" | "part_length" | "length" | "pitch" | "count" | "flip";

const DIGIT_BITS = 8;
const BINS = 2 ** DIGIT_BITS;

/** Invocations whose counts one invocation adds up by itself. */
const SUMMED = 16;

/** Rounds in which records get from those who read them to those who keep them. A round's words are half of 16 KiB. */
const TURNS = 2;

/**
 * keys, tags[line * count ...] = the least `count` records of each part of each row, or all if there are fewer. A part
 * has `part_length` records, the last one of a row what is left of `length`; rows are `pitch` apart.
 */
export function leastProgram(tile: LeastTile): Program<Binding, Parameter> {
  const { dtype, source, items, unrolled } = tile;
  const { bits, reading, functions } = keyTexts[dtype];
  const isElements = source === "elements";
  const perTurn = items / TURNS;
  const turn = tileRecords(items) / TURNS;
  // In each turn, an invocation reads some of a part of the tile, and half of the invocations take all of theirs.
  const turned = (load: (at: string) => string, name: string) =>
    Array.from(
      { length: TURNS },
      (_, t) => wgsl`
  workgroupBarrier();
${eachOf(perTurn, unrolled, (i) => `    if (${t * turn}u + ${i} * LANES + lane < records) { words[slot(${i} * LANES + lane)] = ${load(`at_first + ${t * turn}u + ${i} * LANES + lane`)}; }`)}
  workgroupBarrier();
  if (lane / ${WORKGROUP_SIZE / TURNS}u == ${t}u) {
${each(tile, (i) => `    ${name}[${i}] = words[slot(lane % ${WORKGROUP_SIZE / TURNS}u * ITEMS + ${i})];`)}
  }`,
    ).join("\n");
  return program({
    name: ["sort_least", dtype, source, items, unrolled ? "unrolled" : "looped"].join("_"),
    bindings: bindingsOf(dtype, source, "records"),
    parameters: {
      ...{ lines: "u32", parts: "u32", part_length: "u32", length: "u32", pitch: "u32" },
      ...{ count: "u32", flip: "u32" },
    },
    body: wgsl`
${workgroupIndex}
const LANES = ${WORKGROUP_SIZE}u;
const ITEMS = ${items}u;

var<workgroup> words: array<u32, ${turn}>;
var<workgroup> bins: array<atomic<u32>, ${BINS}>;
var<workgroup> sums: array<u32, ${WORKGROUP_SIZE / SUMMED}>;
/// The bin of the last wanted key, and how many are wanted of it.
var<workgroup> found: vec2<u32>;

/// Where word \`place\` lies: neighbouring invocations meet no bank twice, whether they read neighbours or their own.
fn slot(place: u32) -> u32 { return place ^ ((place >> 5u) & 31u); }

${isElements ? reading : ""}
${functions}
${emission("records")}

/// The sum of what the invocations before this one have. Begins with a barrier.
fn before_of(lane: u32, own: u32) -> u32 {
  workgroupBarrier();
  words[lane] = own;
  workgroupBarrier();
  let first = lane - lane % ${SUMMED}u;
  var before = 0u;
  for (var i = 0u; i < ${SUMMED - 1}u; i++) { before += select(0u, words[first + i], first + i < lane); }
  if (lane % ${SUMMED}u == ${SUMMED - 1}u) { sums[lane / ${SUMMED}u] = before + own; }
  workgroupBarrier();
  for (var i = 0u; i < ${WORKGROUP_SIZE / SUMMED}u; i++) { before += select(0u, sums[i], i < lane / ${SUMMED}u); }
  return before;
}

@compute @workgroup_size(LANES)
fn main(${linearBuiltins}) {
  let line = workgroup_index(workgroup, workgroups);
  if (line >= parameters.lines) { return; }
  let row = line / parameters.parts;
  let start = (line - row * parameters.parts) * parameters.part_length;
  let at_first = row * parameters.pitch + start;
  let records = min(parameters.part_length, parameters.length - start);
  var key: array<u32, ITEMS>;
  var tag: array<u32, ITEMS>;
${
  isElements
    ? wgsl`${turned((at) => `raw_at(${at})`, "tag")}
${each(
  tile,
  (i) => wgsl`    let raw = tag[${i}];
    key[${i}] = key_of(raw);
    tag[${i}] = tag_of(start + lane * ITEMS + ${i}, raw);`,
)}`
    : `${turned((at) => `source_keys[parameters.source_keys_offset + ${at}]`, "key")}
${turned((at) => `source_tags[parameters.source_tags_offset + ${at}]`, "tag")}`
}
  // Of those whose higher bits are \`prefix\`, the wanted ones.
  var wanted = min(parameters.count, records);
  var prefix = 0u;
  for (var shift = ${bits}u; shift > 0u; shift -= ${DIGIT_BITS}u) {
    atomicStore(&bins[lane], 0u);
    workgroupBarrier();
    // A shift by all bits of a word would be one by none.
${each(
  tile,
  (i) => wgsl`    let upper = select((key[${i}] >> (shift & 31u)), 0u, shift == 32u);
    if (lane * ITEMS + ${i} < records && upper == prefix) {
      atomicAdd(&bins[(key[${i}] >> (shift - ${DIGIT_BITS}u)) & ${BINS - 1}u], 1u);
    }`,
)}
    workgroupBarrier();
    let own = atomicLoad(&bins[lane]);
    let before = before_of(lane, own);
    if (before < wanted && wanted <= before + own) { found = vec2<u32>(lane, wanted - before); }
    workgroupBarrier();
    let bin = found;
    wanted = bin.y;
    prefix = (prefix << ${DIGIT_BITS}u) | bin.x;
  }
  // In the upper half, how many of this invocation equal the last key, and in the lower one, how many are below it.
  var own = 0u;
${each(
  tile,
  (i) => wgsl`    if (lane * ITEMS + ${i} < records) {
      own += select(0u, 1u, key[${i}] < prefix) + select(0u, 0x10000u, key[${i}] == prefix);
    }`,
)}
  let before = before_of(lane, own);
  var below = before & 0xffffu;
  var equal = before >> 16u;
${each(
  tile,
  (i) => wgsl`    if (lane * ITEMS + ${i} < records) {
      let is_equal = key[${i}] == prefix;
      if (key[${i}] < prefix || (is_equal && equal < wanted)) {
        emit(line * parameters.count + below + min(equal, wanted), key[${i}], tag[${i}]);
      }
      below += select(0u, 1u, key[${i}] < prefix);
      equal += select(0u, 1u, is_equal);
    }`,
)}
}
`,
  });
}
