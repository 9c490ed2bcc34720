import {
  halfFunctions,
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
import { SIDE, SUBGROUP, UNIT } from "../tiles/index.js";
import { hidingName, windowFunctions } from "./hiding.wgsl.js";
import { logBindings, logFunction, logName } from "./log-sum-exp.wgsl.js";
import { allKeysText, firstText } from "./matrix-loops.wgsl.js";
import { matrixMaskBindings, matrixMaskFunctions } from "./matrix-mask.wgsl.js";
import { shares } from "./matrix-shares.wgsl.js";
import { firstPlaces, matrixStaging, queriesText, rowPlace } from "./matrix-stage.wgsl.js";
import {
  type AttentionMatrixForm,
  type AttentionMatrixTile,
  attentionLayout,
  attentionMatrixName,
  attentionMatrixThreads,
  isPrepared,
  ofMember,
  ROW_SHARE,
} from "./matrix-tile.js";
import { placeParameters, placesName } from "./places.wgsl.js";
import { attendedBindings, attendedFunction, attendedParameters } from "./prepared-mask.wgsl.js";
import { partParameters, partStart, rowLimits, seenFunction } from "./rows.wgsl.js";
import { halvesFunctions } from "./weights.wgsl.js";

const sum = `subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>`;

/** Output through the scores' memory, as many columns at a time as fit there. */
function storeText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const { rows, pitches, blocks } = attentionLayout(tile, form.columns);
  const share = shares(tile, form);
  const isPart = form.results === "parts";
  // The factor of a row of the output is kept behind its scores.
  const factor = (row: string) => `scores[team][${row} * ${pitches.scores}u + ${pitches.scores - 1}u].x`;
  const log = (i: number) => `
    let row = ownBase + ${share.row(i)};
    if (row < parameters.rows) { store_log(resultRow + row, reference_${i}, sum_${i}); }`;
  return `${share.rows(
    (i) => `  var sum_${i} = add_up(total_${i});
  sum_${i} += subgroupShuffleXor(sum_${i}, 1u);
  if (place % ${ROW_SHARE}u == 0u) {
${
  isPart
    ? `    let row = ownBase + ${share.row(i)};
    if (row < parameters.rows) {
      statistics[parameters.statistics_offset + resultRow + row] = vec2f(select(LOWEST, reference_${i}, sum_${i} > 0.0), sum_${i});
    }`
    : `    // A row that sees no key gives zeros.
    ${factor(share.row(i))} = bitcast<u32>(select(0.0, 1.0 / max(sum_${i}, 1.0e-30), sum_${i} > 0.0));${form.logs ? log(i) : ""}`
}
  }`,
  )}
${lines(Math.ceil(blocks.out / blocks.scores), (shot) => {
  const count = Math.min(blocks.scores, blocks.out - shot * blocks.scores);
  const store = (i: number, j: number) =>
    `  subgroupMatrixStore<row_major>(&scores[team], ${ofMember(tile, 4 * blocks.scores)}${i * SIDE * pitches.scores + 4 * j}u, out_${i}_${j + shot * blocks.scores}, ${pitches.scores}u);`;
  return `  workgroupBarrier();
${lines(blocks.rows, (i) => lines(count, (j) => store(i, j)))}
  workgroupBarrier();
  for (var unit = ${ofMember(tile, SUBGROUP)}place; unit < ${rows * tile.across * count * 2}u; unit += ${tile.across * SUBGROUP}u) {
    let row = unit / ${tile.across * count * 2}u;
    let whose = unit / ${count * 2}u % ${tile.across}u;
    let octet = unit % ${count * 2}u;
    let at = row * ${pitches.scores}u + whose * ${4 * blocks.scores}u + octet * 2u;
    let along = whose * ${2 * blocks.out}u + ${shot * blocks.scores * 2}u + octet;
    if (ownBase + row < parameters.rows && along < headUnits) {
      let ownRow = ownBase + row;
      store_octet(out_first + ${rowPlace(form, "out", "ownRow")} + along, ${isPart ? "1.0" : `bitcast<f32>(${factor("row")})`},
        bitcast<vec4f>(scores[team][at]), bitcast<vec4f>(scores[team][at + 1u]));
    }
  }`;
})}`;
}

const storeOctet = {
  halves: `results[parameters.results_offset + at] = vec4u(
    pack_halves(low.x * factor, low.y * factor), pack_halves(low.z * factor, low.w * factor),
    pack_halves(high.x * factor, high.y * factor), pack_halves(high.z * factor, high.w * factor));`,
  parts: `results[parameters.results_offset + 2u * at] = low * factor;
  results[parameters.results_offset + 2u * at + 1u] = high * factor;`,
};

/**
 * As `attentionProgram`, with both products on the matrix units of a GPU: f16 operands, f32 sums. WGSL gives no
 * access to the elements of subgroup matrices, so invocations read scores from workgroup memory and write weights
 * back as f16.
 *
 * For the same reason, the output cannot be rescaled when a larger score comes up. So weights are relative to the
 * largest score of the first step, with room for others 2^LARGEST times as heavy. If that was not enough for some
 * row, which shows at the end, the workgroup begins again, once, with the largest scores of all, which it then knows.
 */
export const attentionMatrixProgram: (tile: AttentionMatrixTile, form: AttentionMatrixForm) => Program =
  memoized((tile: AttentionMatrixTile, form: AttentionMatrixForm): Program => {
    const { panels, blocks, rows } = attentionLayout(tile, form.columns);
    const { columns, whole, weights, results, hiding, logs = false, apart = false } = form;
    const share = shares(tile, form);
    const stage = matrixStaging(tile, form);
    const eachOut = (line: (i: number, j: number) => string) =>
      lines(blocks.rows, (i) => lines(blocks.out, (j) => line(i, j)));
    const panel = (name: string, units: number) => `var<workgroup> ${name}: array<vec4u, ${units}>;`;
    const ofTeams = (name: string, units: number) =>
      `var<workgroup> ${name}: array<array<vec4u, ${units}>, ${tile.subgroups / tile.across}>;`;
    const isPart = results === "parts";
    /** Of the i-th row of an invocation. */
    const ofRow = (i: number) => {
      const row = `ownBase + ${share.row(i)}`;
      const place = `\n  let mask_${i} = mask_row(matrix, min(${row}, parameters.rows - 1u));`;
      const since = `\n  let since_${i} = seen_since((${row}) % parameters.query_length);`;
      return `${hiding?.mask === undefined ? "" : place}${hiding?.window ? since : ""}`;
    };
    const statistics: Record<string, Storage> = isPart ? { statistics: output("vec2f") } : {};
    return program<string, string>({
      name: `attention_matrices_${attentionMatrixName(tile)}x${columns}${whole ? "" : "_within"}_${weights}_${results}${hidingName(hiding)}${logName(logs)}${placesName(apart)}`,
      enable: ["f16", "subgroups", "chromium_experimental_subgroup_matrix"],
      directives: ["diagnostic(off, chromium.subgroup_matrix_uniformity);"],
      bindings: {
        q: input("half8"), // matrices x rows x head_size
        k: input("half8"), // matrices x key_pitch x head_size
        v: input("half8"), // matrices x key_pitch x head_size
        ...matrixMaskBindings(hiding),
        ...attendedBindings(isPrepared(form)),
        results: output(isPart ? "vec4f" : "half8"), // (parts x) matrices x rows x head_size
        ...statistics, // parts x matrices x rows
        ...logBindings(logs), // matrices x rows
      },
      parameters: {
        matrices: "u32",
        ...partParameters(hiding),
        ...placeParameters(apart),
        ...attendedParameters(isPrepared(form)),
      },
      body: wgsl`
${workgroupIndex}
${halfFunctions}
const ROWS = ${tile.queries}u;
const KEYS = ${tile.keys}u;
const LOWEST = -1.0e38;
const UNSEEN = -2.0e38;
const LARGEST = 15.0; // weights are at most two to this: f16 ends just below 2^16

${panel("key_panel", panels.keys)}
${tile.own === "none" ? "" : panel("value_panel", panels.values)}
${tile.own === "all" ? ofTeams("weights", panels.weights) : ""}
${ofTeams("scores", panels.scores)}
var<workgroup> flags: array<u32, ${tile.subgroups}>;

fn greatest(v: vec4f) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
fn add_up(v: vec4f) -> f32 { return (v.x + v.y) + (v.z + v.w); }
${halvesFunctions}
${seenFunction}${windowFunctions(hiding)}${matrixMaskFunctions(hiding, isPrepared(form) ? "tiles" : "rows")}${attendedFunction(isPrepared(form))}${logFunction(logs, "two")}
fn store_octet(at: u32, factor: f32, low: vec4f, high: vec4f) {
  ${storeOctet[results]}
}

// One workgroup computes ROWS rows of the output.
@compute @workgroup_size(${attentionMatrixThreads(tile)})
fn main(${linearBuiltins}, @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) place: u32) {
  let tiles = (parameters.rows + ROWS - 1u) / ROWS;
  let parts = (parameters.key_length + parameters.part_keys - 1u) / parameters.part_keys;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * parts * parameters.matrices) { return; }
  let resultsCount = parts * parameters.matrices;
  // Where all keys are seen, workgroups of the same keys go together. Else the last queries of all heads and matrices come
  // first: they may see most keys, and what starts last should be short. Heads of one matrix are taken apart if their tiles are.
  let isEven = parameters.visible + 1 >= i32(parameters.key_length);
  let result = select(group % resultsCount, group / tiles, isEven); // part * matrices + matrix
  let heads = select(1u, parameters.rows / parameters.query_length, parameters.query_length % ROWS == 0u);
  let turn = group / resultsCount;
  let late = (turn % heads + 1u) * (tiles / heads) - 1u - turn / heads;
  let rowBase = select(late, group % tiles, isEven) * ROWS;
  let matrix = result % parameters.matrices;
  let ${partStart(hiding)} = result / parameters.matrices * parameters.part_keys;
  let headUnits = ${whole ? `${columns / UNIT}u` : `parameters.head_size / ${UNIT}u`};
${firstPlaces(form)}
  let resultRow = result * parameters.rows;

${rowLimits(hiding)}
  let scale = abs(parameters.scale);
  let flip = select(0u, 0x80008000u, parameters.scale < 0.0);

  let team = subgroup${tile.across === 1 ? "" : ` / ${tile.across}u;\n  let member = subgroup % ${tile.across}u`};
  let ownBase = rowBase + team * ${rows}u;
${stage.registers}
${queriesText(tile, form)}
  let zero = ${sum}();
${eachOut((i, j) => `  var out_${i}_${j} = zero;`)}
${share.rows(
  (i) => `  let seen_${i} = seen_until((ownBase + ${share.row(i)}) % parameters.query_length, keyEnd);
  var reference_${i} = LOWEST; // the score of weight 1, scaled
  var high_${i} = vec4f(UNSEEN); // of this invocation's scores, relative to it
  var total_${i} = vec4f(); // of its weights${ofRow(i)}`,
)}
${firstText(tile, form)}
${allKeysText(tile, form)}
${storeText(tile, form)}
}
`,
    });
  });
