import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  memoized,
  output,
  type Program,
  program,
  type Storage,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import {
  accumulators,
  columnAt,
  type OuterProduct,
  operandText,
  outerProduct,
  rowAt,
  stagedPitch,
  tileConstants,
  tilePlace,
} from "../tiles/index.js";
import { type Hiding, hidingBindings, hidingFunctions, hidingName } from "./hiding.wgsl.js";
import { logBindings, logFunction, logName } from "./log-sum-exp.wgsl.js";
import { placeParameters, placesName } from "./places.wgsl.js";
import { partParameters, partStart, rowLimits, seenFunction } from "./rows.wgsl.js";
import { fetchedRegisters, operandsStage, type Stage, valuesStage } from "./stage.wgsl.js";
import {
  type AttentionTile,
  attentionTileName,
  SHARE,
  scoreTile,
  stagePartQuads,
  stageParts,
  stagePlaces,
  valueTile,
  WEIGHT_KEYS,
} from "./tile.js";
import { weightFunction } from "./weights.wgsl.js";

/** The properties that a kernel is generated for, besides its tile; sizes are parameters. */
export interface AttentionForm {
  readonly dtype: FloatType;
  /** headSize is a multiple of four and q, k and v are aligned to four elements. */
  readonly vector: boolean;
  /** Head elements of the output that one workgroup computes: a multiple of 4 * across. */
  readonly columns: number;
  /**
   * `elements`: f32, one at a time. `quads`: f32 or, of f16 problems, f16, four at a time, as headSize is
   * a multiple of four and the results are aligned. `parts`: the keys are split; results are f32,
   * unnormalised sums with statistics, for `mergeProgram`.
   */
  readonly results: "elements" | "quads" | "parts";
  /** Whether the kernel stores the logarithms of its sums; not with `parts`. Default: false. */
  readonly logs?: boolean;
  readonly hiding?: Hiding | undefined;
  /** Whether rows of operands lie apart, which takes as many query heads as key heads; not those of parts. Default: false. */
  readonly apart?: boolean;
  /** Rows of a block: only blocks that the product of parts has left are computed, see `attentionSplitProgram`. */
  readonly onlyLeft?: number;
}

/** Lower than any score of use, and finite: WGSL may assume that there are no infinities. */
const lowest = "-1.0e38";

/** The score of keys that a row does not see: their weight is zero even if nothing was seen before. */
const unseen = "-2.0e38";

const component = (i: number) => "xyzw"[i & 3]!;

/** A text for each row of an invocation. */
const rowLines = (tile: AttentionTile, line: (row: number) => string) => lines(tile.threadRows, line);
/** A text for each four rows of an invocation. */
const quadLines = (tile: AttentionTile, line: (quad: number) => string) => lines(tile.threadRows / 4, line);

/**
 * All steps of a product, some written out, in a loop over `part`. Staged operands are arrays of arrays,
 * one inner array for the steps that are written out: so the places inside are constants further than
 * the invocation's own, which Tint proves to be in bounds, and only the part is checked.
 */
export function steps(count: number, unroll: number, product: Omit<OuterProduct, "step">): string {
  return `    for (var part = 0u; part < ${count / unroll}u; part++) {
${lines(unroll, (index) => outerProduct({ ...product, step: `${index}u` }))}
    }`;
}

/** Leaves the scores of a tile as `sum_*`, and the values of its first keys in registers. */
function scoresText(tile: AttentionTile, operands: Stage, v: Stage): string {
  const scores = scoreTile(tile);
  const { left, right } = stagePlaces(tile);
  const [first, next, last] = tile.turns
    ? ["  turn = 0u;\n", "turn = HALF - turn;", "\n  other = HALF - turn;"]
    : ["", "workgroupBarrier();", ""];
  return `${accumulators(scores, "sum")}
${first}  loop {
${operands.store}
    workgroupBarrier();
    depthBase += DEPTH;
    if (depthBase < parameters.head_size) {
      let keyNext = keyBase;
${operands.load}
    } else {
      let valueBase = keyBase;
${v.load}
    }
${steps(tile.depth, tile.unroll, {
  ...{ tile: scores, sum: "sum" },
  ...{ left: (index) => `${left("part")}${index}]`, leftPitch: "LEFT_PITCH" },
  ...{ right: (index) => `${right("part")}${index}]`, rightPitch: "RIGHT_PITCH" },
})}
    if (depthBase >= parameters.head_size) { break; }
    ${next}
  }${last}`;
}

/** The keys of an invocation's scores in a row, by fours. */
function keysText(tile: AttentionTile): string {
  return lines(
    scoreTile(tile).threadColumns / 4,
    (q) =>
      `    let key_${q} = keyBase + ${4 * q * tile.across}u + threadColumn / ${SHARE}u * ${WEIGHT_KEYS}u + threadColumn % ${SHARE}u + vec4u(0u, ${SHARE}u, ${2 * SHARE}u, ${3 * SHARE}u);`,
  );
}

/** Adds the mask, and hides what is older than the window. */
function hiddenText(tile: AttentionTile, hiding: Hiding | undefined): string {
  const quads = scoreTile(tile).threadColumns / 4;
  const each = (line: (row: number, quad: number) => string) =>
    rowLines(tile, (r) => lines(quads, (q) => line(r, q)));
  const mask = `
  {
${keysText(tile)}
${each((r, q) => `    sum_${r}_${q} = masked_keys(sum_${r}_${q}, mask_${r}, min(key_${q}, vec4u(keyLast)));`)}
  }`;
  const window = `
  if (keyBase < seenSinceByAll) {
${keysText(tile)}
${rowLines(tile, (r) => `    let since_${r} = vec4u(seen_since((${rowAt(scoreTile(tile), r)}) % parameters.query_length));`)}
${each((r, q) => `    sum_${r}_${q} = select(vec4f(UNSEEN), sum_${r}_${q}, key_${q} >= since_${r});`)}
  }`;
  return `${hiding?.mask === undefined ? "" : mask}${hiding?.window ? window : ""}`;
}

/**
 * Scales and masks the scores, finds the new maxima of the rows and turns scores into weights. The
 * invocations that share rows exchange their maxima through `weights`, which is free at this time.
 */
function weightsText(tile: AttentionTile, hiding: Hiding | undefined): string {
  const scores = scoreTile(tile);
  const quads = scores.threadColumns / 4;
  const each = (line: (row: number, quad: number) => string) =>
    rowLines(tile, (r) => lines(quads, (q) => line(r, q)));
  return `
${each((r, q) => `  sum_${r}_${q} *= parameters.scale;`)}${hiddenText(tile, hiding)}
  // Only at the end of what the rows see are there keys that some of them do not see.
  if (keyBase + COLUMNS > seenByAll) {
${keysText(tile)}
${rowLines(tile, (r) => `    let seen_${r} = vec4u(seen_until((${rowAt(scores, r)}) % parameters.query_length, keyEnd));`)}
${each((r, q) => `    sum_${r}_${q} = select(vec4f(UNSEEN), sum_${r}_${q}, key_${q} < seen_${r});`)}
  }
${rowLines(tile, (r) => {
  const highest = Array.from({ length: quads }, (_, q) => `sum_${r}_${q}`).reduce(
    (a, b) => `max(${a}, ${b})`,
  );
  return `  let high_${r} = highest(${highest});`;
})}
${quadLines(tile, (i) => `  ${rowValue(tile, "threadColumn", i)} = vec4f(${[0, 1, 2, 3].map((r) => `high_${4 * i + r}`).join(", ")});`)}
  workgroupBarrier(); // also: the staged operands have been read
${quadLines(tile, (i) => `  var highest_${i} = maxima_${i};`)}
${lines(tile.across, (other) => quadLines(tile, (i) => `  highest_${i} = max(highest_${i}, ${rowValue(tile, `${other}u`, i)});`))}
${quadLines(tile, (i) => `  let factor_${i} = weight(maxima_${i} - highest_${i});\n  maxima_${i} = highest_${i};`)}
${each((r, q) => `  sum_${r}_${q} = weight(sum_${r}_${q} - maxima_${r >> 2}.${component(r)});`)}
${rowLines(tile, (r) => {
  const total = Array.from({ length: quads }, (_, q) => `sum_${r}_${q}`).join(" + ");
  return `  total_${r} = total_${r} * factor_${r >> 2}.${component(r)} + add_up(${total});`;
})}`;
}

/** The place in `weights` of a value for each of four rows, from the invocations in one column of the tile. */
function rowValue(tile: AttentionTile, column: string, quad: number): string {
  const down = tile.queries / tile.threadRows;
  return `${stagePlaces(tile).exchanged(`${column} / UNROLL`)}${column} % UNROLL * LEFT_PITCH + threadRow + ${quad * down}u]`;
}

/** Scales the output so far and adds weights times values, `valueDepth` keys at a time. */
function valuesText(tile: AttentionTile, form: AttentionForm, operands: Stage, v: Stage): string {
  const values = valueTile(tile, form.columns);
  const quads = scoreTile(tile).threadColumns / 4;
  const down = tile.queries / tile.threadRows;
  const perWeights = WEIGHT_KEYS / tile.valueDepth;
  const places = stagePlaces(tile);
  const share = (quad: number) =>
    `      if (step / ${perWeights}u == ${(quad * tile.across) / SHARE}u + threadColumn / ${SHARE}u) {
${lines(4, (c) => {
  const key = `(threadColumn % ${SHARE}u + ${c * SHARE}u)`;
  return quadLines(
    tile,
    (i) =>
      `        ${places.weights(`${key} / UNROLL`)}${key} % UNROLL * LEFT_PITCH + threadRow + ${i * down}u] = vec4f(${[0, 1, 2, 3].map((r) => `sum_${4 * i + r}_${quad}.${component(c)}`).join(", ")});`,
  );
})}
      }`;
  return `
${rowLines(tile, (r) => lines(values.threadColumns / 4, (q) => `  out_${r}_${q} *= factor_${r >> 2}.${component(r)};`))}
  var step = 0u;
  loop {
    workgroupBarrier(); // what was in workgroup memory before has been read
    if (step % ${perWeights}u == 0u) { // the weights of the next ${WEIGHT_KEYS} keys
${lines(quads, share)}
    }
${v.store}
    workgroupBarrier();
    let firstPart = step % ${perWeights}u * ${tile.valueDepth / tile.unroll}u;
    step++;
    let valueBase = keyBase + step * VALUE_DEPTH;
    let last = step == ${tile.keys / tile.valueDepth}u || valueBase >= keyEnd;
    if (last) {
      let keyNext = keyBase + COLUMNS;
      depthBase = 0u;
${operands.load}
    } else {
${v.load}
    }
${steps(tile.valueDepth, tile.unroll, {
  ...{ tile: values, sum: "out" },
  ...{ left: (index) => `${places.weights("firstPart + part")}${index}]`, leftPitch: "LEFT_PITCH" },
  ...{ right: (index) => `${places.values("part")}${index}]`, rightPitch: `${stagedPitch(form.columns)}u` },
})}
    if (last) { break; }
  }
  workgroupBarrier(); // weights and staged values have been read`;
}

/** Adds up the sums of the invocations that share rows and stores output, or parts and statistics. */
function storeText(tile: AttentionTile, form: AttentionForm): string {
  const values = valueTile(tile, form.columns);
  const isPart = form.results === "parts";
  const stores = rowLines(tile, (r) => {
    const quads = lines(values.threadColumns / 4, (q) => {
      const at = columnAt(values, q).replace("columnBase", "headBase");
      return `    store_quad(result_place, ${at}, out_${r}_${q}${isPart ? "" : " * inverse"});`;
    });
    const statistics = `    if (headBase == 0u && threadColumn == 0u) {
      statistics[parameters.statistics_offset + result_row] = vec2f(maxima_${r >> 2}.${component(r)}, total);
    }`;
    const log = `
    if (headBase == 0u && threadColumn == 0u) { store_log(result_row, maxima_${r >> 2}.${component(r)}, total); }`;
    return `  if (${rowAt(values, r)} < parameters.rows) {
    let result_row = result * parameters.rows + ${rowAt(values, r)};
    let result_place = ${form.apart && !isPart ? `out_base + (${rowAt(values, r)}) * parameters.out_row` : "result_row * parameters.head_size"};
    let total = totals_${r >> 2}.${component(r)};
${isPart ? statistics : "    let inverse = select(0.0, 1.0 / max(total, 1.0e-30), total > 0.0); // a row that sees no key gives zeros"}${form.logs ? log : ""}
${quads}
  }`;
  });
  return `
${quadLines(tile, (i) => `  ${rowValue(tile, "threadColumn", i)} = vec4f(${[0, 1, 2, 3].map((r) => `total_${4 * i + r}`).join(", ")});`)}
  workgroupBarrier();
${quadLines(tile, (i) => `  var totals_${i} = vec4f();`)}
${lines(tile.across, (other) => quadLines(tile, (i) => `  totals_${i} += ${rowValue(tile, `${other}u`, i)};`))}
${stores}`;
}

/** Returns the bindings, and the function that writes four neighbouring head elements, as far as they exist. */
function resultText(form: AttentionForm): { binding: Storage; functions: string } {
  if (form.results === "elements" || (form.results === "parts" && !form.vector))
    return {
      binding: output("f32"),
      functions: wgsl`
fn store_quad(row_place: u32, column: u32, values: vec4f) {
  let at = parameters.results_offset + row_place + column;
  if (column < parameters.head_size) { results[at] = values.x; }
  if (column + 1u < parameters.head_size) { results[at + 1u] = values.y; }
  if (column + 2u < parameters.head_size) { results[at + 2u] = values.z; }
  if (column + 3u < parameters.head_size) { results[at + 3u] = values.w; }
}
`,
    };
  const stored = form.results === "quads" ? form.dtype : "f32";
  return {
    binding: output(floatLayouts[stored].quad),
    functions: wgsl`
fn store_quad(row_place: u32, column: u32, values: vec4f) {
  if (column >= parameters.head_size) { return; }
  results[parameters.results_offset + (row_place + column) / 4u] = ${floatLayouts[stored].packed("values")};
}
`,
  };
}

/** Where the rows of a key head start. */
function basesText(apart: boolean): string {
  const base = (name: "q" | "k" | "v", place: string) =>
    `  let ${name}_base = parameters.${name}_offset * ${name}_unit + ${place};`;
  if (!apart)
    return [
      base("q", "matrix * parameters.rows * parameters.head_size"),
      base("k", "matrix * parameters.key_pitch * parameters.head_size"),
      base("v", "matrix * parameters.key_pitch * parameters.head_size"),
    ].join("\n");
  const ofHead = (name: string) => `image * parameters.${name}_batch + head * parameters.${name}_head`;
  return `  let image = matrix / parameters.kv_heads;
  let head = matrix % parameters.kv_heads;
${(["q", "k", "v"] as const).map((name) => base(name, ofHead(name))).join("\n")}
  let out_base = ${ofHead("out")};`;
}

/**
 * One pass over keys and values with a running maximum and sum for each row ("online softmax",
 * Milakov and Gimelshein 2018; tiled as in FlashAttention-2, Dao 2023). Exponentials are powers of two.
 *
 * The rows of one key head are the queries of all heads that share it, which lie one after another in
 * q and out: row r is query r % query_length.
 */
export const attentionProgram: (tile: AttentionTile, form: AttentionForm) => Program = memoized(
  (tile: AttentionTile, form: AttentionForm): Program => {
    const { dtype, vector, columns, hiding, logs = false, apart = false, onlyLeft } = form;
    const pitched = (name: "q" | "k" | "v") => (apart ? { pitch: `parameters.${name}_row` } : {});
    const q = operandText("q", dtype, vector); // matrices x rows x head_size
    const k = operandText("k", dtype, vector); // matrices x key_pitch x head_size
    const v = operandText("v", dtype, vector); // matrices x key_pitch x head_size
    const scores = scoreTile(tile);
    const operands = operandsStage(
      ...([tile, vector] as const),
      { name: "q", first: "rowBase", last: "parameters.rows - 1u", ...pitched("q") },
      { name: "k", first: "keyNext", last: "keyLast", ...pitched("k") },
    );
    const values = valuesStage(tile, columns, vector, {
      ...{ name: "v", first: "valueBase", last: "keyLast", ...pitched("v") },
    });
    const result = resultText(form);
    const kind = `${dtype}${vector ? "_4" : ""}_${form.results}${hidingName(hiding)}${logName(logs)}${placesName(apart)}${onlyLeft === undefined ? "" : `_left_${onlyLeft}`}`;
    const statistics: Record<string, Storage> =
      form.results === "parts" ? { statistics: output("vec2f") } : {};
    return program<string, string>({
      name: `attention_${attentionTileName(tile)}x${columns}_${kind}`,
      bindings: {
        ...{ q: q.storage, k: k.storage, v: v.storage, ...hidingBindings(hiding) },
        results: result.binding, // (parts x) matrices x rows x head_size
        ...statistics, // parts x matrices x rows
        ...logBindings(logs), // matrices x rows
        ...(onlyLeft === undefined ? {} : { left: input("u32") }), // matrices x blocks
      },
      uniform: true,
      parameters: {
        /** batch * kvHeads */
        matrices: "u32",
        ...partParameters(hiding),
        ...placeParameters(apart),
      },
      body: wgsl`
${workgroupIndex}
${floatLayouts[dtype].functions}
${q.functions}
${k.functions}
${v.functions}
${result.functions}${logFunction(logs, "two")}
${tileConstants(scores)}
const VALUE_DEPTH = ${tile.valueDepth}u;
const HEAD_COLUMNS = ${columns}u; // head elements of the output that one workgroup computes
const UNROLL = ${tile.unroll}u; // steps that are written out
const RIGHT = UNROLL * LEFT_PITCH; // where the keys start in a part of stage
const LOWEST = f32(${lowest});
const UNSEEN = f32(${unseen});

// Staged operands, and keys x queries: parts of UNROLL steps each, padded.
var<workgroup> stage: array<array<vec4f, ${stagePartQuads(tile, columns)}>, ${stageParts(tile)}>;
${tile.turns ? `const HALF = ${stageParts(tile) / 2}u; // of these parts` : `var<workgroup> weights: array<array<vec4f, UNROLL * LEFT_PITCH>, ${WEIGHT_KEYS / tile.unroll}>;`}

${weightFunction}
fn highest(v: vec4f) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
fn add_up(v: vec4f) -> f32 { return (v.x + v.y) + (v.z + v.w); }

${seenFunction}${hidingFunctions(hiding)}
// One workgroup computes ROWS rows x HEAD_COLUMNS head elements of the output.
@compute @workgroup_size(THREADS)
fn main(${linearBuiltins}) {
  let tiles = (parameters.rows + ROWS - 1u) / ROWS;
  let chunks = (parameters.head_size + HEAD_COLUMNS - 1u) / HEAD_COLUMNS;
  let parts = (parameters.key_length + parameters.part_keys - 1u) / parameters.part_keys;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * chunks * parts * parameters.matrices) { return; }
  // The last rows of all matrices come first: they may see most keys, and what starts last should be short.
  let results_count = parts * parameters.matrices;
  let rowBase = (tiles - 1u - group / (results_count * chunks)) * ROWS;
  let headBase = group / results_count % chunks * HEAD_COLUMNS;
  let result = group % results_count; // part * matrices + matrix
  let matrix = result % parameters.matrices;
  let ${partStart(hiding)} = result / parameters.matrices * parameters.part_keys;
${
  onlyLeft === undefined
    ? ""
    : `  if (left[parameters.left_offset + matrix * ((parameters.rows + ${onlyLeft - 1}u) / ${onlyLeft}u) + rowBase / ${onlyLeft}u] == 0u) { return; }
`
}${basesText(apart)}

${rowLimits(hiding)}
${tilePlace(scores)}${hiding?.mask === undefined ? "" : `\n${rowLines(tile, (r) => `  let mask_${r} = mask_row(matrix, min(${rowAt(scores, r)}, parameters.rows - 1u));`)}`}
${quadLines(tile, (i) => `  var maxima_${i} = vec4f(LOWEST); // of the scores so far`)}
${rowLines(tile, (r) => `  var total_${r} = 0.0; // of this invocation's weights`)}
${accumulators(valueTile(tile, columns), "out")}
${fetchedRegisters(operands, values)}
  var depthBase = 0u;${tile.turns ? "\n  var turn = 0u;\n  var other = HALF;" : ""}
  {
    let keyNext = keyStart;
${operands.load}
  }
  for (var keyBase = keyStart; keyBase < keyEnd; keyBase += COLUMNS) {
${scoresText(tile, operands, values)}
${weightsText(tile, hiding)}
${valuesText(tile, form, operands, values)}
  }
${storeText(tile, form)}
}
`,
    });
  },
);
