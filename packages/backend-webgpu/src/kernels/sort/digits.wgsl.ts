import {
  type ComputedType,
  input,
  linearBuiltins,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { keyTexts, LAST_KEY } from "./keys.wgsl.js";
import { type Binding, bindingsOf, emission, type Sink, type Source } from "./lines.wgsl.js";
import { DIGIT_BITS, each, registers, sortTile, type TileSize, workgroupWords } from "./tile.wgsl.js";

/*
 * Long rows are sorted by digits of 8 bits, the lowest first. For each digit a first pass counts how often each of
 * its values occurs in each tile of a row; a scan along the tiles gives how often up to each; and a second pass sorts
 * each tile by the digit and writes each run of equal ones after those of lower digits, and of equal ones in tiles
 * before it. No workgroup waits for another.
 *
 * The table has a line of `DIGITS` counts for each tile.
 */

/** Bits of the digit that one pass sorts by, and its values: as many as invocations. */
export const PASS_BITS = 8;
export const DIGITS: number = 2 ** PASS_BITS;

/** The properties of a generated kernel; everything else is a parameter. */
export interface CountTile extends Pick<TileSize, "items"> {
  readonly dtype: ComputedType;
  readonly source: Source;
}

export interface ScatterTile extends TileSize {
  readonly dtype: ComputedType;
  readonly source: Source;
  readonly sink: Sink;
}

/** table[tile][digit] = how many of the tile's keys have the digit, for the `tiles` tiles of each of `rows` rows. */
export function countProgram({
  dtype,
  source,
  items,
}: CountTile): Program<"data" | "keys" | "table", "rows" | "length" | "tiles" | "shift" | "flip"> {
  const { storage, reading, functions } = keyTexts[dtype];
  const isElements = source === "elements";
  const bindings = {
    ...(isElements ? { data: input(storage) } : { keys: input("u32") }),
    table: output("u32"),
  } as Record<"data" | "keys" | "table", ReturnType<typeof input>>;
  return program({
    name: `sort_count_${isElements ? dtype : "keys"}_${items}`,
    bindings,
    parameters: { rows: "u32", length: "u32", tiles: "u32", shift: "u32", flip: "u32" },
    body: wgsl`
${workgroupIndex}
${isElements ? `${reading}${functions}` : ""}
var<workgroup> counts: array<atomic<u32>, ${DIGITS}>;

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
  let row = group / parameters.tiles;
  if (row >= parameters.rows) { return; }
  let start = (group - row * parameters.tiles) * ${items * WORKGROUP_SIZE}u;
  let end = min(start + ${items * WORKGROUP_SIZE}u, parameters.length);
  workgroupBarrier();
  for (var place = start + lane; place < end; place += ${WORKGROUP_SIZE}u) {
    let at = row * parameters.length + place;
    let key = ${isElements ? "key_of(raw_at(at))" : "keys[parameters.keys_offset + at]"};
    atomicAdd(&counts[(key >> parameters.shift) & ${DIGITS - 1}u], 1u);
  }
  workgroupBarrier();
  table[parameters.table_offset + group * ${DIGITS}u + lane] = atomicLoad(&counts[lane]);
}
`,
  });
}

/** Of the tile, by a digit of a pass. A parameter, for compilers would otherwise write it out twice. */
export const PASS_ROUNDS: number = PASS_BITS / DIGIT_BITS;

/**
 * Moves records to their places by one digit. Of rows that are divided this is done for each piece of the source, whose
 * first element is at `first_place` of its row, and each window of the results, that is places `first_result` to
 * first_result + results of each row.
 *
 * `own`: the lines of the tiles in the scanned table. `before`: the lines before them, from that of the first tile
 * on. `last`: those of the last tiles of the rows, as far apart as rows are.
 */
export function scatterProgram(
  tile: ScatterTile,
): Program<
  Binding | "own" | "before" | "last",
  "rows" | "length" | "tiles" | "shift" | "rounds" | "flip" | "first_place" | "first_result" | "results"
> {
  const { dtype, source, sink, items, unrolled } = tile;
  const { reading, functions } = keyTexts[dtype];
  const isElements = source === "elements";
  const striped = (i: string) => `${i} * LANES + lane`;
  const blocked = (i: string) => `lane * ITEMS + ${i}`;
  const turned = (load: string, got: (i: string) => string) => wgsl`
  workgroupBarrier();
${each(tile, (i) => `    if (${striped(i)} < records) { words[slot(${striped(i)})] = ${load}; }`.replaceAll("INDEX", striped(i)))}
  workgroupBarrier();
${each(tile, got)}`;
  const isResult = sink !== "records";
  return program({
    name: ["sort_scatter", dtype, source, sink, items, unrolled ? "unrolled" : "looped"].join("_"),
    bindings: {
      ...bindingsOf(dtype, source, sink),
      ...{ own: input("u32"), before: input("u32"), last: input("u32") },
    },
    parameters: {
      ...{ rows: "u32", length: "u32", tiles: "u32", shift: "u32", rounds: "u32", flip: "u32" },
      ...{ first_place: "u32", first_result: "u32", results: "u32" },
    },
    body: wgsl`
${workgroupIndex}
${workgroupWords(tile)}
${isElements ? reading : ""}
${isElements || isResult ? functions : ""}
${emission(sink)}

@compute @workgroup_size(LANES)
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
  let row = group / parameters.tiles;
  if (row >= parameters.rows) { return; }
  let tile = group - row * parameters.tiles;
  let start = tile * TILE;
  let records = min(TILE, parameters.length - start);
  let first = row * parameters.length + start;
${registers}

  // Of one digit: those in tiles before this one, those up to this one, and all of the row.
  let isFirst = parameters.first_place + tile == 0u;
  let line = group * ${DIGITS}u + lane;
  var before_tile = 0u;
  if (!isFirst) {
    before_tile = before[parameters.before_offset + line - select(0u, ${DIGITS}u, parameters.first_place == 0u)];
  }
  let in_tile = own[parameters.own_offset + line] - before_tile;
  let in_row = last[parameters.last_offset + row * parameters.tiles * ${DIGITS}u + lane];
  // From the place of a record in the tile to that in the row.
  let lower_in_row = sums_of(lane, in_row).x;
  workgroupBarrier();
  let lower_in_tile = sums_of(lane, in_tile).x;
  let shift_of_digit = lower_in_row + before_tile - lower_in_tile;
${
  isElements
    ? turned(
        "raw_at(first + INDEX)",
        (i) => wgsl`
    let raw = words[slot(${blocked(i)})];
    key[${i}] = select(${LAST_KEY}, key_of(raw), ${blocked(i)} < records);
    tag[${i}] = tag_of(parameters.first_place + start + ${blocked(i)}, raw);`,
      )
    : wgsl`
${turned(
  "source_keys[parameters.source_keys_offset + first + INDEX]",
  (i) => `    key[${i}] = select(${LAST_KEY}, words[slot(${blocked(i)})], ${blocked(i)} < records);`,
)}
${turned("source_tags[parameters.source_tags_offset + first + INDEX]", (i) => `    tag[${i}] = words[slot(${blocked(i)})];`)}`
}
${sortTile(
  tile,
  "parameters.rounds",
  (i) => `(key[${i}] >> (parameters.shift + ${DIGIT_BITS}u * round)) & ${2 ** DIGIT_BITS - 1}u`,
  striped,
)}
  workgroupBarrier();
  words[lane] = shift_of_digit;
  workgroupBarrier();
${each(
  tile,
  (i) => wgsl`
    let digit = (key[${i}] >> parameters.shift) & ${DIGITS - 1}u;
    // Places before the window wrap round to large numbers.
    let result = ${striped(i)} + words[digit] - parameters.first_result;
    if (${striped(i)} < records && result < parameters.results) {
      emit(row * parameters.results + result, key[${i}], tag[${i}]);
    }`,
)}
}
`,
  });
}
