import type { DType } from "@backplane/core";
import { memoized, output, type Program, program, type Storage } from "../../program.js";
import { halfFunctions, linearBuiltins, wgsl, workgroupIndex } from "../../wgsl.js";
import { lines } from "../gemm/lines.js";
import { operandText } from "../gemm/operands.wgsl.js";
import {
  accumulators,
  columnAt,
  outerProduct,
  productLoop,
  rowAt,
  type Staged,
  tileConstants,
  tilePlace,
} from "../gemm/product.wgsl.js";
import { matrixStage } from "../gemm/stage.wgsl.js";
import { stagedPitch } from "../gemm/tile.js";
import { type AttentionTile, attentionTileName, scoreTile, stageQuads, valueTile } from "./tile.js";

/** What a kernel is generated for, besides its tile; sizes reach it as parameters. */
export interface AttentionForm {
  readonly dtype: DType;
  /** headSize is a multiple of four and q, k and v are aligned to four elements. */
  readonly vector: boolean;
  /** Head elements of the output that one workgroup computes: 32, 64 or 128. */
  readonly columns: number;
  /** The keys are split: results are unnormalised sums with statistics, for `mergeProgram`. */
  readonly parts: boolean;
}

/** Lower than any score of use, and finite: WGSL may assume that there are no infinities. */
const lowest = "-1.0e38";

/**
 * Differences from the largest score are cut off here, so that exp neither overflows nor meets a
 * number that it need not be accurate for: exp(-100) is below the smallest normal f32.
 */
const smallestExponent = "-100.0";

const component = (i: number) => "xyzw"[i]!;

/** Masks and scales the scores, leaves them as `sum_*`, and finds the new maxima and correction factors. */
function maximaText(tile: AttentionTile): string {
  const scores = scoreTile(tile);
  const quads = scores.threadColumns / 4;
  const queryQuads = tile.queries / 4;
  return `
  // Keys that each row sees, as counts from keyBase.
${lines(4, (r) => `  let seen_${r} = seen_keys(${rowAt(scores, r)}, keyBase, keyEnd);`)}
${lines(quads, (q) => `  let key_${q} = vec4u(0u, 1u, 2u, 3u) + (threadColumn + ${q * tile.across}u) * 4u;`)}
${lines(4, (r) => lines(quads, (q) => `  sum_${r}_${q} = select(vec4f(LOWEST), sum_${r}_${q} * parameters.scale, key_${q} < vec4u(seen_${r}));`))}
${lines(4, (r) => {
  const highest = Array.from({ length: quads }, (_, q) => `sum_${r}_${q}`).reduce(
    (a, b) => `max(${a}, ${b})`,
  );
  return `  let high_${r} = highest(${highest});`;
})}
  workgroupBarrier(); // the staged operands have been read
  stage[threadColumn * ${queryQuads}u + threadRow] = vec4f(high_0, high_1, high_2, high_3);
  workgroupBarrier();
  var high = maxima;
  for (var i = 0u; i < ${tile.across}u; i++) { high = max(high, stage[i * ${queryQuads}u + threadRow]); }
  let factor = weight(maxima - high);
  maxima = high;`;
}

/** Turns the scores into weights, kept in workgroup memory as keys x queries, and adds them up. */
function weightsText(tile: AttentionTile): string {
  const quads = scoreTile(tile).threadColumns / 4;
  const queryPitch = stagedPitch(tile.queries);
  return `
${lines(4, (r) => lines(quads, (q) => `  sum_${r}_${q} = select(vec4f(), weight(sum_${r}_${q} - maxima.${component(r)}), key_${q} < vec4u(seen_${r}));`))}
${lines(quads, (q) => lines(4, (c) => `  weights[(key_${q}.x + ${c}u) * ${queryPitch}u + threadRow] = vec4f(${[0, 1, 2, 3].map((r) => `sum_${r}_${q}.${component(c)}`).join(", ")});`))}
${lines(4, (r) => {
  const total = Array.from({ length: quads }, (_, q) => `sum_${r}_${q}`).join(" + ");
  return `  total_${r} = total_${r} * factor.${component(r)} + add_up(${total});`;
})}`;
}

/** Scales the output so far and adds weights times values, `valueDepth` keys at a time. */
function valuesText(tile: AttentionTile, form: AttentionForm): string {
  const values = valueTile(tile, form.columns);
  const staged: Staged = (index) => `stage[${index}]`;
  const stage = matrixStage(values, {
    ...{ side: "right", contiguousDepth: false, vector: form.vector },
    ...{ load1: "v_load1", load4: "v_load4", base: "v_base" },
    ...{ pitch: "parameters.head_size", extent: "parameters.head_size" },
    ...{ staged, stagedPitch: `${stagedPitch(form.columns)}u` },
  });
  const steps = lines(values.unroll, (offset) =>
    outerProduct({
      ...{ tile: values, sum: "out", step: `d + ${offset}u` },
      ...{ left: (index) => `weights[firstKey * ${stagedPitch(tile.queries)}u + ${index}]` },
      ...{ leftPitch: `${stagedPitch(tile.queries)}u` },
      ...{ right: staged, rightPitch: `${stagedPitch(form.columns)}u` },
    }),
  );
  return `
${lines(4, (r) => lines(values.threadColumns / 4, (q) => `  out_${r}_${q} *= factor.${component(r)};`))}
  {
  let columnBase = headBase;
  let k = keyEnd;
${stage.prepare}
  for (var firstKey = 0u; firstKey < ${tile.keys}u; firstKey += ${tile.valueDepth}u) {
    let depthBase = keyBase + firstKey;
    if (depthBase >= keyEnd) { break; }
${stage.load}
    workgroupBarrier(); // what was staged before has been read, and the weights are complete
${stage.store}
    workgroupBarrier();
    for (var d = 0u; d < ${tile.valueDepth}u; d += ${values.unroll}u) {
${steps}
    }
  }
  }
  workgroupBarrier(); // weights and staged values have been read`;
}

/** Adds up the sums of the invocations that share rows and stores output, or parts and statistics. */
function storeText(tile: AttentionTile, form: AttentionForm): string {
  const values = valueTile(tile, form.columns);
  const queryQuads = tile.queries / 4;
  const stores = lines(4, (r) => {
    const quads = lines(values.threadColumns / 4, (q) => {
      const at = columnAt(values, q).replace("columnBase", "headBase");
      return form.parts
        ? `    store_quad(result_row, ${at}, out_${r}_${q});`
        : `    store_quad(result_row, ${at}, out_${r}_${q} * inverse);`;
    });
    return `  if (${rowAt(values, r)} < parameters.rows) {
    let result_row = result * parameters.rows + ${rowAt(values, r)};
${
  form.parts
    ? `    if (headBase == 0u && threadColumn == 0u) {
      statistics[parameters.statistics_offset + result_row] = vec2f(maxima.${component(r)}, totals.${component(r)});
    }`
    : `    let sum = totals.${component(r)};
    let inverse = select(0.0, 1.0 / max(sum, 1.0e-30), sum > 0.0); // a row that sees no key gives zeros`
}
${quads}
  }`;
  });
  return `
  stage[threadColumn * ${queryQuads}u + threadRow] = vec4f(total_0, total_1, total_2, total_3);
  workgroupBarrier();
  var totals = vec4f();
  for (var i = 0u; i < ${tile.across}u; i++) { totals += stage[i * ${queryQuads}u + threadRow]; }
${stores}`;
}

/**
 * One pass over keys and values with a running maximum and sum for each row ("online softmax",
 * Milakov and Gimelshein 2018; tiled as in FlashAttention-2, Dao 2023).
 *
 * The rows of one key head are the queries of all heads that share it, which lie one after another in
 * q and out: row r is query r % query_length.
 */
export const attentionProgram: (tile: AttentionTile, form: AttentionForm) => Program = memoized(
  (tile: AttentionTile, form: AttentionForm): Program => {
    const { dtype, vector } = form;
    const q = operandText("q", dtype, vector); // matrices x rows x head_size
    const k = operandText("k", dtype, vector); // matrices x key_length x head_size
    const v = operandText("v", dtype, vector); // matrices x key_length x head_size
    const scores = scoreTile(tile);
    const operand = (name: "q" | "k") => ({
      ...{ contiguousDepth: true, vector, load1: `${name}_load1`, load4: `${name}_load4` },
      ...{ base: `${name}_base`, pitch: "parameters.head_size" },
    });
    const leftAt: Staged = (index) => `stage[${index}]`;
    const rightAt: Staged = (index) => `stage[RIGHT + ${index}]`;
    const left = matrixStage(scores, {
      ...{ ...operand("q"), side: "left", extent: "parameters.rows", staged: leftAt },
    });
    const right = matrixStage(scores, {
      ...{ ...operand("k"), side: "right", extent: "parameters.key_length", staged: rightAt },
    });
    const kind = `${dtype}${vector ? "_4" : ""}${form.parts ? "_parts" : ""}`;
    const statistics: Record<string, Storage> = form.parts ? { statistics: output("vec2f") } : {};
    return program<string, string>({
      name: `attention_${attentionTileName(tile)}x${form.columns}_${kind}`,
      bindings: {
        ...{ q: q.storage, k: k.storage, v: v.storage },
        results: output("f32"), // (parts x) matrices x rows x head_size
        ...statistics, // parts x matrices x rows
      },
      parameters: {
        /** batch * kvHeads */
        matrices: "u32",
        /** heads / kvHeads * queryLength */
        rows: "u32",
        query_length: "u32",
        key_length: "u32",
        head_size: "u32",
        /** Keys of one part. */
        part_keys: "u32",
        scale: "f32",
        visible: "i32",
      },
      body: wgsl`
${workgroupIndex}
${dtype === "f16" ? halfFunctions : ""}
${q.functions}
${k.functions}
${v.functions}
${tileConstants(scores)}
const HEAD_COLUMNS = ${form.columns}u; // head elements of the output that one workgroup computes
const RIGHT = DEPTH * LEFT_PITCH; // where the right tile starts in stage
const LOWEST = f32(${lowest});

var<workgroup> stage: array<vec4f, ${stageQuads(tile, form.columns)}>; // operands, or a value per row and invocation
var<workgroup> weights: array<vec4f, COLUMNS * LEFT_PITCH>; // keys x queries, padded

fn weight(difference: vec4f) -> vec4f { return exp(max(difference, vec4f(${smallestExponent}))); }
fn highest(v: vec4f) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
fn add_up(v: vec4f) -> f32 { return (v.x + v.y) + (v.z + v.w); }

/// The number of keys up to keyEnd that a query sees.
fn seen_until(query: u32, keyEnd: u32) -> u32 {
  return u32(clamp(i32(query) + parameters.visible + 1, 0, i32(keyEnd)));
}

fn seen_keys(row: u32, keyBase: u32, keyEnd: u32) -> u32 {
  let end = seen_until(row % parameters.query_length, keyEnd);
  return max(end, keyBase) - keyBase;
}

fn store_quad(row: u32, column: u32, values: vec4f) {
  let at = parameters.results_offset + row * parameters.head_size + column;
  if (column < parameters.head_size) { results[at] = values.x; }
  if (column + 1u < parameters.head_size) { results[at + 1u] = values.y; }
  if (column + 2u < parameters.head_size) { results[at + 2u] = values.z; }
  if (column + 3u < parameters.head_size) { results[at + 3u] = values.w; }
}

// One workgroup computes ROWS rows x HEAD_COLUMNS head elements of the output.
@compute @workgroup_size(THREADS)
fn main(${linearBuiltins}) {
  let tiles = (parameters.rows + ROWS - 1u) / ROWS;
  let chunks = (parameters.head_size + HEAD_COLUMNS - 1u) / HEAD_COLUMNS;
  let parts = (parameters.key_length + parameters.part_keys - 1u) / parameters.part_keys;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * chunks * parts * parameters.matrices) { return; }
  let rowBase = group % tiles * ROWS;
  let headBase = group / tiles % chunks * HEAD_COLUMNS;
  let result = group / tiles / chunks; // part * matrices + matrix
  let matrix = result % parameters.matrices;
  let keyStart = result / parameters.matrices * parameters.part_keys;
  let q_base = parameters.q_offset * q_unit + matrix * parameters.rows * parameters.head_size;
  let k_base = parameters.k_offset * k_unit + matrix * parameters.key_length * parameters.head_size;
  let v_base = parameters.v_offset * v_unit + matrix * parameters.key_length * parameters.head_size;

  // The last query of the tile sees most keys; a tile that reaches into another head has them all.
  let lastRow = min(rowBase + ROWS, parameters.rows) - 1u;
  let oneHead = rowBase / parameters.query_length == lastRow / parameters.query_length;
  let lastQuery = select(parameters.query_length - 1u, lastRow % parameters.query_length, oneHead);
  let keyEnd = seen_until(lastQuery, min(parameters.key_length, keyStart + parameters.part_keys));
${tilePlace(scores)}
  var maxima = vec4f(LOWEST); // of the scores so far, for the four rows
${lines(4, (r) => `  var total_${r} = 0.0; // of this invocation's weights`)}
${accumulators(valueTile(tile, form.columns), "out")}
  for (var keyBase = keyStart; keyBase < keyEnd; keyBase += COLUMNS) {
  let columnBase = keyBase;
  let depthStart = 0u;
  let k = parameters.head_size;
${productLoop(scores, left, right, leftAt, rightAt)}
${maximaText(tile)}
${weightsText(tile)}
${valuesText(tile, form)}
  }
${storeText(tile, form)}
}
`,
    });
  },
);
