import {
  input,
  linearBuiltins,
  lines,
  memoized,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../../program/index.js";
import { LOW_SHIFT, partsFunctions } from "../../gemm/split/pass.wgsl.js";
import { SIDE, SUBGROUP, UNIT } from "../../tiles/index.js";
import { agreedText } from "../matrix-loops.wgsl.js";
import { shares } from "../matrix-shares.wgsl.js";
import { matrixStaging, operandType } from "../matrix-stage.wgsl.js";
import { attentionMatrixName, attentionMatrixThreads, ofMember, ROW_SHARE } from "../matrix-tile.js";
import { partParameters, rowLimits, seenFunction } from "../rows.wgsl.js";
import { DOWN, firstText, keysText, stagedForm, UP } from "./loops.wgsl.js";
import { powerOfTwo, UNEVEN_SCORES, UNEVEN_VALUES, WIDE } from "./parts.wgsl.js";
import { type AttentionSplitTile, splitLayout } from "./split-tile.js";

const sum = `subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>`;

/** Parts of queries in registers, as `query_high_ROWS_DEPTH` and `query_low_...`, through the memory of the scores. */
function queriesText(tile: AttentionSplitTile, columns: number): string {
  const { rows, pitches, blocks } = splitLayout(tile, columns);
  const chunk = tile.keys; // elements at a time
  const perRow = chunk / UNIT;
  return lines(columns / chunk, (c) => {
    const first = (c * chunk) / UNIT;
    const matrix = (part: "high" | "low") =>
      lines(blocks.rows, (i) =>
        lines(
          chunk / SIDE,
          (d) =>
            `  let query_${part}_${i}_${d + (c * chunk) / SIDE} = subgroupMatrixLoad<${operandType("right")}, col_major>(&scores[team], ${i * SIDE * pitches.scores + 2 * d + (part === "low" ? perRow : 0)}u, ${pitches.scores}u);`,
        ),
      );
    return `  for (var unit = ${ofMember(tile, SUBGROUP)}place; unit < ${rows * perRow}u; unit += ${tile.across * SUBGROUP}u) {
    let row = min(ownBase + unit / ${perRow}u, parameters.rows - 1u);
    let along = unit % ${perRow}u + ${first}u;
    var first = vec4f();
    var second = vec4f();
    if (along < headUnits) {
      let at = parameters.q_offset + ((matrix * parameters.rows + row) * headUnits + along) * 2u;
      first = q[at] * queryScale;
      second = q[at + 1u] * queryScale;
    }
    let at = unit / ${perRow}u * ${pitches.scores}u + unit % ${perRow}u;
    let of_first = parts_of(first);
    let of_second = parts_of(second);
    scores[team][at] = vec4u(of_first.high, of_second.high);
    scores[team][at + ${perRow}u] = vec4u(of_first.low, of_second.low);
  }
  workgroupBarrier();
${matrix("high")}
${matrix("low")}
  workgroupBarrier();`;
  });
}

/**
 * What is known of the rows at the end, and behind their scores: the factor of the output, and the magnitude from which on its
 * elements are right for certain.
 */
function suspectText(tile: AttentionSplitTile, columns: number): string {
  const { pitches } = splitLayout(tile, columns);
  const share = shares(tile, stagedForm(columns));
  return `  var suspect = false;
${share.rows(
  (i) => `  {
    let sum = add_up(total_${i}) + subgroupShuffleXor(add_up(total_${i}), 1u);
    let lowest = min(least(low_${i}), subgroupShuffleXor(least(low_${i}), 1u));
    suspect = suspect || ((own.w & ${UNEVEN_SCORES}) != 0 && (abs(first_${i}) < SCORE_BOUND * scale || first_${i} < reference_${i} - 100.0));
    let certain = max(
      select(0.0, LIGHT_BOUND, lowest < FULL), select(0.0, sum * UNEVEN_BOUND, (own.w & ${UNEVEN_VALUES}) != 0));
    if (place % ${ROW_SHARE}u == 0u) {
      // A row that sees no key gives zeros.
      let factor = select(0.0, valueScale / max(sum, 1.0e-30), sum > 0.0);
      let at = ${share.row(i)} * ${pitches.scores}u + ${pitches.scores - 1}u;
      scores[team][at].x = bitcast<u32>(factor);
      scores[team][at].y = bitcast<u32>(select(0.0, certain, sum > 0.0));
    }
  }`,
)}`;
}

/** Output through the scores' memory, as many columns at a time as fit there. */
function storeText(tile: AttentionSplitTile, columns: number): string {
  const { rows, pitches, blocks } = splitLayout(tile, columns);
  const ofRow = (row: string) => `scores[team][${row} * ${pitches.scores}u + ${pitches.scores - 1}u]`;
  const perRow = 4 * tile.across * blocks.scores; // quads
  const rounds = (rows * perRow) / (tile.across * SUBGROUP);
  return `${lines(Math.ceil(blocks.out / blocks.scores), (shot) => {
    const count = Math.min(blocks.scores, blocks.out - shot * blocks.scores);
    const store = (name: string) =>
      lines(blocks.rows, (i) =>
        lines(
          count,
          (j) =>
            `  subgroupMatrixStore<row_major>(&scores[team], ${ofMember(tile, 4 * blocks.scores)}${i * SIDE * pitches.scores + 4 * j}u, ${name}_${i}_${j + shot * blocks.scores}, ${pitches.scores}u);`,
        ),
      );
    const read = (round: number) =>
      `bitcast<vec4f>(scores[team][(unit + ${round * tile.across * SUBGROUP}u) / ${perRow}u * ${pitches.scores}u + (unit + ${round * tile.across * SUBGROUP}u) % ${perRow}u])`;
    return `  workgroupBarrier();
${store("out")}
  workgroupBarrier();
  {
  let unit = ${ofMember(tile, SUBGROUP)}place;
${lines(rounds, (r) => `  var quad_${r} = ${read(r)};`)}
  workgroupBarrier();
${store("out_low")}
  workgroupBarrier();
${lines(rounds, (r) => `  quad_${r} += ${read(r)} * ${DOWN};`)}
${lines(
  rounds,
  (r) => `  {
    let row = (unit + ${r * tile.across * SUBGROUP}u) / ${perRow}u;
    let quad = (unit + ${r * tile.across * SUBGROUP}u) % ${perRow}u;
    let along = quad / ${4 * blocks.scores}u * ${4 * blocks.out}u + ${shot * blocks.scores * 4}u + quad % ${4 * blocks.scores}u;
    if (quad % ${4 * blocks.scores}u < ${4 * count}u && ownBase + row < parameters.rows && along < 2u * headUnits) {
      let ofRow = ${ofRow("row")};
      suspect = suspect || any(abs(quad_${r}) < vec4f(bitcast<f32>(ofRow.y)));
      results[parameters.results_offset + (matrix * parameters.rows + ownBase + row) * 2u * headUnits + along] = quad_${r} * bitcast<f32>(ofRow.x);
    }
  }`,
)}
  }`;
  })}`;
}

/** As `attentionMatrixProgram`, for f32 operands in parts of f16. */
export const attentionSplitProgram: (tile: AttentionSplitTile, columns: number) => Program = memoized(
  (tile: AttentionSplitTile, columns: number): Program => {
    const { panels, blocks, rows } = splitLayout(tile, columns);
    const share = shares(tile, stagedForm(columns));
    const stage = matrixStaging(tile, stagedForm(columns));
    const panel = (name: string, units: number) => `var<workgroup> ${name}: array<vec4u, ${units}>;`;
    return program<string, string>({
      name: `attention_split_${attentionMatrixName(tile)}x${columns}`,
      enable: ["f16", "subgroups", "chromium_experimental_subgroup_matrix"],
      directives: [
        "diagnostic(off, chromium.subgroup_matrix_uniformity);",
        // What a subgroup agreed on is uniform in it.
        "diagnostic(off, subgroup_uniformity);",
      ],
      bindings: {
        q: input("vec4f"), // matrices x rows x head_size
        k: input("half8"), // matrices x key_length x 2 columns
        v: input("half8"),
        facts: input("vec4i"), // matrices
        results: output("vec4f"), // matrices x rows x head_size
        left: output("u32"), // matrices x tiles: 1 if left to the plain kernel
      },
      parameters: { matrices: "u32", ...partParameters(undefined) },
      body: wgsl`
${workgroupIndex}
${powerOfTwo}
${partsFunctions}
const ROWS = ${tile.queries}u;
const KEYS = ${tile.keys}u;
const ${UP} = ${2 ** LOW_SHIFT}.0;
const ${DOWN} = ${1 / 2 ** LOW_SHIFT};
const LOWEST = -1.0e38;
const UNSEEN = -2.0e38;
const HEADROOM = 10.0; // the largest weight of the first step is two to this
const LARGEST = 15.0; // weights are at most two to this: f16 ends just below 2^16
const FULL = -12.0; // from two to this on, they keep all but one bit
// Bounds from which on nothing that was lost matters (docs/decisions/0010): of an element of the output before division, where
// weights are light; of the same over the sum of weights, where values have lost bits; of the largest score before scaling,
// where queries or keys have.
const LIGHT_BOUND = 16.0;
const UNEVEN_BOUND = ${2 ** -12};
const SCORE_BOUND = 64.0;

${panel("key_panel", panels.keys)}
${tile.own === "none" ? "" : panel("value_panel", panels.values)}
var<workgroup> scores: array<array<vec4u, ${panels.scores}>, ${tile.subgroups / tile.across}>;
var<workgroup> changes: array<array<f32, ${blocks.rows}>, ${tile.subgroups / tile.across}>; // of the references of 16 rows each
var<workgroup> flags: array<u32, ${tile.subgroups}>;

fn greatest(v: vec4f) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
fn least(v: vec4f) -> f32 { return min(min(v.x, v.y), min(v.z, v.w)); }
fn add_up(v: vec4f) -> f32 { return (v.x + v.y) + (v.z + v.w); }
/// Rounded to f16: to 11 bits, or to a multiple of 2^-24.
fn leading(v: vec4f) -> vec4f {
  let rounded = bitcast<vec4f>((bitcast<vec4u>(v) + vec4u(0x1000u)) & vec4u(0xffffe000u));
  return select(rounded, floor(v * 16777216.0) * 5.9604644775390625e-8, v < vec4f(6.103515625e-5));
}
fn eight_halves(low: vec4f, high: vec4f) -> vec4u {
  return vec4u(pack2x16float(low.xy), pack2x16float(low.zw), pack2x16float(high.xy), pack2x16float(high.zw));
}
${seenFunction}

// One workgroup computes ROWS rows of the output.
@compute @workgroup_size(${attentionMatrixThreads(tile)})
fn main(${linearBuiltins}, @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) place: u32) {
  let tiles = (parameters.rows + ROWS - 1u) / ROWS;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * parameters.matrices) { return; }
  // Where all keys are seen, workgroups of the same keys go together. Else the last rows of all matrices come
  // first: they may see most keys, and what starts last should be short.
  let isEven = parameters.visible + 1 >= i32(parameters.key_length);
  let matrix = select(group % parameters.matrices, group / tiles, isEven);
  let tileIndex = select(tiles - 1u - group / parameters.matrices, group % tiles, isEven);
  let rowBase = tileIndex * ROWS;
  let own = facts[parameters.facts_offset + matrix];
  let leftAt = parameters.left_offset + matrix * tiles + tileIndex;
  if ((own.w & ${WIDE}) != 0) {
    if (lane == 0u) { left[leftAt] = 1u; }
    return;
  }
  let keyStart = 0u;
  let headUnits = parameters.head_size / ${UNIT}u;
${rowLimits(undefined)}
  let scale = abs(parameters.scale) * power_of_two(own.x + own.y);
  let queryScale = select(1.0, -1.0, parameters.scale < 0.0) * power_of_two(-own.x);
  let valueScale = power_of_two(own.z);

  let team = subgroup${tile.across === 1 ? "" : ` / ${tile.across}u;\n  let member = subgroup % ${tile.across}u`};
  let ownBase = rowBase + team * ${rows}u;
${stage.registers}
${queriesText(tile, columns)}
  let zero = ${sum}();
${lines(blocks.rows, (i) => lines(blocks.out, (j) => `  var out_${i}_${j} = zero;\n  var out_low_${i}_${j} = zero;`))}
${share.rows(
  (i) => `  let seen_${i} = seen_until((ownBase + ${share.row(i)}) % parameters.query_length, keyEnd);
  var low_${i} = vec4f(1.0e38); // the lowest of this invocation's scores, relative to the reference
  var total_${i} = vec4f(); // of its weights`,
)}
  let k_pitch = ${(2 * columns) / UNIT}u;
  let k_first = parameters.k_offset + matrix * parameters.key_pitch * k_pitch;
  let v_pitch = k_pitch;
  let v_first = parameters.v_offset + matrix * parameters.key_pitch * k_pitch;
${firstText(tile, columns)}
${keysText(tile, columns)}
${suspectText(tile, columns)}
${storeText(tile, columns)}
  let anySuspect = subgroupAny(suspect);
${agreedText(tile, "anySuspect", "isLeft")}
  if (lane == 0u) { left[leftAt] = u32(isLeft); }
}
`,
    });
  },
);
