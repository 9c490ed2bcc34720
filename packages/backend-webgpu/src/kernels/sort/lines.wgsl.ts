import {
  type ComputedType,
  input,
  linearBuiltins,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { keyTexts, LAST_KEY, PLACE_MASK } from "./keys.wgsl.js";
import {
  DIGIT_BITS,
  each,
  exchange,
  registers,
  sortTile,
  type TileSize,
  workgroupWords,
} from "./tile.wgsl.js";

/** Elements of the operand, or records: keys, and tags apart from them. */
export type Source = "elements" | "records";
export type Sink = "values" | "indices" | "both" | "records";

/** The properties of one generated kernel; everything else is a parameter. */
export interface LinesTile extends TileSize {
  readonly dtype: ComputedType;
  readonly source: Source;
  readonly sink: Sink;
  /** Neighbouring elements of a line are neighbours in memory, or neighbouring lines are. */
  readonly along: "length" | "inner";
  /** By digits, or by comparing each element with all others of its line. */
  readonly method: "digits" | "compare";
}

export type Binding = "data" | "source_keys" | "source_tags" | "values" | "indices" | "keys" | "tags";

type Parameter = "lines" | "length" | "pitch" | "inner" | "count" | "tile_lines" | "rounds" | "flip";

/** What a kernel reads, and what it writes. */
export function bindingsOf(dtype: ComputedType, source: Source, sink: Sink) {
  return {
    ...(source === "elements"
      ? { data: input(keyTexts[dtype].storage) }
      : { source_keys: input("u32"), source_tags: input("u32") }),
    ...(sink === "values" || sink === "both" ? { values: output("u32") } : {}),
    ...(sink === "indices" || sink === "both" ? { indices: output("u32") } : {}),
    ...(sink === "records" ? { keys: output("u32"), tags: output("u32") } : {}),
  } as Record<Binding, ReturnType<typeof input>>;
}

/** The function `emit` for a record of a place in the results. */
export function emission(sink: Sink): string {
  const store = (name: string, value: string) => `  ${name}[parameters.${name}_offset + at] = ${value};`;
  const statements = {
    values: [store("values", "result_of(key, tag)")],
    indices: [store("indices", `tag & ${PLACE_MASK}`)],
    both: [store("values", "result_of(key, tag)"), store("indices", `tag & ${PLACE_MASK}`)],
    records: [store("keys", "key"), store("tags", "tag")],
  };
  return `fn emit(at: u32, key: u32, tag: u32) {\n${statements[sink].join("\n")}\n}`;
}

/**
 * The first `count` records of lines in order. A workgroup sorts `tile_lines` neighbouring lines at once: the line is the
 * highest digit. Line l begins at (l / inner) * pitch + l % inner, and its elements are `inner` apart; its results begin
 * at (l / inner) * inner * count + l % inner.
 */
export function linesProgram(tile: LinesTile): Program<Binding, Parameter> {
  const { dtype, source, sink, along, method, items } = tile;
  const { bits, reading, functions } = keyTexts[dtype];
  const isElements = source === "elements";
  const isCompared = method === "compare";
  const keyRounds = bits / DIGIT_BITS;
  const striped = (i: string) => `${i} * LANES + lane`;
  const placed = (i: string) => `place_of(${striped(i)}, lines)`;
  const blocked = (i: string) => `lane * ITEMS + ${i}`;
  const at = (i: string) =>
    `address_of(first + ${placed(i)} / parameters.length, ${placed(i)} % parameters.length)`;
  const record = (i: string, raw: string, place: string) => wgsl`
    let raw = ${raw};
    let isElement = ${place} < records;
    key[${i}] = select(${LAST_KEY}, key_of(raw), isElement);
    tag[${i}] = tag_of(${place}, raw);`;
  // Through the words to the invocations that are to hold them.
  const turned = (load: string, got: (i: string) => string) => wgsl`
  workgroupBarrier();
${each(tile, (i) => `    if (${striped(i)} < records) { words[slot(${placed(i)})] = ${load}[parameters.${load}_offset + ${at(i)}]; }`)}
  workgroupBarrier();
${each(tile, got)}`;
  return program({
    name: [
      "sort_lines",
      dtype,
      source,
      sink,
      along,
      method,
      items,
      tile.unrolled ? "unrolled" : "looped",
    ].join("_"),
    bindings: bindingsOf(dtype, source, sink),
    parameters: {
      ...{ lines: "u32", length: "u32", pitch: "u32", inner: "u32", count: "u32" },
      ...{ tile_lines: "u32", rounds: "u32", flip: "u32" },
    },
    body: wgsl`
${workgroupIndex}
${workgroupWords(tile, isCompared)}
${isElements ? reading : ""}
${functions}
${emission(sink)}

/// The place among the records of the tile of what is read or written as number \`index\`.
fn place_of(index: u32, lines: u32) -> u32 {
  return ${along === "length" ? "index" : "(index % lines) * parameters.length + index / lines"};
}

fn address_of(line: u32, place: u32) -> u32 {
  let outer = line / parameters.inner;
  return outer * parameters.pitch + line - outer * parameters.inner + place * parameters.inner;
}

/// First those of the key, then those of the line in the tile.
fn digit_of(key: u32, tag: u32, round: u32) -> u32 {
  var bits = key >> (${DIGIT_BITS}u * round);
  if (round >= ${keyRounds}u) {
    bits = ((tag & ${PLACE_MASK}) / parameters.length) >> (${DIGIT_BITS}u * (round - ${keyRounds}u));
  }
  return bits & ${2 ** DIGIT_BITS - 1}u;
}

@compute @workgroup_size(LANES)
fn main(${linearBuiltins}) {
  let first = workgroup_index(workgroup, workgroups) * parameters.tile_lines;
  if (first >= parameters.lines) { return; }
  let lines = min(parameters.tile_lines, parameters.lines - first);
  let records = lines * parameters.length;
${registers}
${
  isCompared
    ? wgsl`
${each(
  tile,
  (i) => wgsl`
    let place = ${placed(i)};
    if (${striped(i)} < records) {
      let raw = raw_at(${at(i)});
      key[${i}] = key_of(raw);
      tag[${i}] = tag_of(place, raw);
      words[slot(place)] = key[${i}];
    }`,
)}
  workgroupBarrier();
${each(
  tile,
  (i) => wgsl`
    let place = ${placed(i)};
    rank[${i}] = ${striped(i)};
    if (${striped(i)} < records) {
      let start = place - place % parameters.length;
      var ahead = 0u;
      for (var other = start; other < start + parameters.length; other++) {
        let rival = words[slot(other)];
        ahead += select(0u, 1u, (rival < key[${i}]) | ((rival == key[${i}]) & (other < place)));
      }
      rank[${i}] = start + ahead;
    }`,
)}
${exchange(tile, placed)}`
    : wgsl`
${
  isElements
    ? wgsl`
${each(tile, (i) => `    if (${striped(i)} < records) { words[slot(${placed(i)})] = raw_at(${at(i)}); }`)}
  workgroupBarrier();
${each(tile, (i) => record(i, `words[slot(${blocked(i)})]`, blocked(i)))}`
    : `${turned("source_keys", (i) => `    key[${i}] = select(${LAST_KEY}, words[slot(${blocked(i)})], ${blocked(i)} < records);`)}
${turned("source_tags", (i) => `    tag[${i}] = words[slot(${blocked(i)})];`)}`
}
${sortTile(tile, "parameters.rounds", (i) => `digit_of(key[${i}], tag[${i}], round)`, placed)}`
}
${each(
  tile,
  (i) => wgsl`
    let place = ${placed(i)};
    let line = place / parameters.length;
    let order = place - line * parameters.length;
    if (${striped(i)} < records && order < parameters.count) {
      let outer = (first + line) / parameters.inner;
      let column = first + line - outer * parameters.inner;
      let at = (outer * parameters.count + order) * parameters.inner + column;
      emit(at, key[${i}], tag[${i}]${isElements ? " - line * parameters.length" : ""});
    }`,
)}
}
`,
  });
}
