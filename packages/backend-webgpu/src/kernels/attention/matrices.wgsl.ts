import { input, memoized, output, type Program, program, type Storage } from "../../program.js";
import { halfFunctions, linearBuiltins, wgsl, workgroupIndex } from "../../wgsl.js";
import { lines } from "../gemm/lines.js";
import { SIDE, SUBGROUP } from "../gemm/panels.wgsl.js";
import { matrixStaging, operandType, queriesText } from "./matrix-stage.wgsl.js";
import {
  type AttentionMatrixTile,
  attentionLayout,
  attentionMatrixName,
  attentionMatrixThreads,
  ROW_SHARE,
  UNIT,
} from "./matrix-tile.js";
import { rowLimits, seenFunction } from "./rows.wgsl.js";

/** What a kernel is generated for, besides its tile; sizes reach it as parameters. */
export interface AttentionMatrixForm {
  /** Head elements, a multiple of 16 * across; there are zeros behind those of the problem. */
  readonly columns: number;
  /** headSize is `columns`. */
  readonly whole: boolean;
  /**
   * Weights are f16 numbers, `rough`, or sums of two, `fine`. `mixed`: fine in workgroups with a row that
   * sees less than `ROUGH_KEYS` keys.
   */
  readonly weights: "rough" | "fine" | "mixed";
  /** `halves`: f16. `parts`: the keys are split; f32 sums with statistics, for `mergeProgram`. */
  readonly results: "halves" | "parts";
}

/**
 * Rows that see so many keys may have rough weights. Rounding weights P to f16 is an error of at most
 * 2^-11 sum P |v|, and the roundings of two f32 sums over n keys may add up to 2 n 2^-23 sum P |v|: as much
 * from 1024 keys on if half of the weights' errors cancel, and for certain from 2048.
 */
export const ROUGH_KEYS = 1024;

const sum = `subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>`;

/** Scores of one step, to the subgroup's panel. */
function scoresText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const { pitches, blocks } = attentionLayout(tile, form.columns);
  const each = (line: (i: number, j: number) => string) =>
    lines(blocks.rows, (i) => lines(blocks.scores, (j) => line(i, j)));
  const product = (i: number, j: number, d: number) =>
    `    ${d === 0 ? "var " : ""}score_${i}_${j} = subgroupMatrixMultiplyAccumulate(query_${i}_${d}, key_${d}_${j}, ${d === 0 ? "zero" : `score_${i}_${j}`});`;
  return `    {
${lines(form.columns / SIDE, (d) =>
  lines(
    blocks.scores,
    (
      j,
    ) => `    let key_${d}_${j} = subgroupMatrixLoad<${operandType("right")}, col_major>(&key_panels[panelColumn], ${j * SIDE * pitches.keys + 2 * d}u, ${pitches.keys}u);
${lines(blocks.rows, (i) => product(i, j, d))}`,
  ),
)}
${each((i, j) => `    subgroupMatrixStore<row_major>(&scores[subgroup], ${i * SIDE * pitches.scores + 4 * j}u, score_${i}_${j}, ${pitches.scores}u);`)}
    }`;
}

/** The rows of an invocation, and its runs of eight keys in them. */
function shares(tile: AttentionMatrixTile, form: AttentionMatrixForm) {
  const { scoreColumns, pitches } = attentionLayout(tile, form.columns);
  const rows = tile.queries / tile.down / tile.across / (SUBGROUP / ROW_SHARE);
  const octets = tile.keys / UNIT / ROW_SHARE;
  const perPanel = scoreColumns / UNIT;
  const row = (i: number) => `(shareBase + ${(i * SUBGROUP) / ROW_SHARE}u)`;
  const octet = (j: number) => `(place % ${ROW_SHARE}u + ${j * ROW_SHARE}u)`;
  return {
    octets,
    row,
    octet,
    rows: (line: (i: number) => string) => lines(rows, line),
    each: (line: (i: number, j: number) => string) => lines(rows, (i) => lines(octets, (j) => line(i, j))),
    score: (i: number, j: number) =>
      `scores[panelRow * ${tile.across}u + ${octet(j)} / ${perPanel}u][${row(i)} * ${pitches.scores}u + ${octet(j)} % ${perPanel}u * 2u`,
    /** In the weights' panels, and those of their remainders. */
    weight: (i: number, j: number) => `${row(i)} * ${pitches.weights}u + ${octet(j)}`,
    any: (text: (i: number) => string) => Array.from({ length: rows }, (_, i) => text(i)).join(" || "),
  };
}

const reduced = (name: string, operation: (a: string, b: string) => string) =>
  `  ${name} = ${operation(name, `subgroupShuffleXor(${name}, 1u)`)};\n  ${name} = ${operation(name, `subgroupShuffleXor(${name}, 2u)`)};`;
const highest = (name: string) => reduced(name, (a, b) => `max(${a}, ${b})`);
const added = (name: string) => reduced(name, (a, b) => `${a} + ${b}`);

/** Turns the scores of a step into weights. */
function weightsText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const share = shares(tile, form);
  const { octets } = share;
  const quads = (i: number) =>
    Array.from({ length: 2 * octets }, (_, j) => `score_${i}_${j >> 1}_${j & 1}`).reduce(
      (a, b) => `max(${a}, ${b})`,
    );
  const both = (line: (half: number) => string) => lines(2, line);
  const seenAt = (i: number, j: number, half: number) =>
    `keyBase + ${share.octet(j)} * ${UNIT}u + vec4u(${[0, 1, 2, 3].map((c) => `${4 * half + c}u`).join(", ")}) < vec4u(seen_${i})`;
  const rough = share.each(
    (i, j) =>
      `      weights[panelRow][${share.weight(i, j)}] = eight_halves(score_${i}_${j}_0, score_${i}_${j}_1);`,
  );
  const fine = share.each(
    (i, j) => `      {
        let low = leading(score_${i}_${j}_0);
        let high = leading(score_${i}_${j}_1);
        weights[panelRow][${share.weight(i, j)}] = eight_halves(low, high);
        rest_${i}_${j} = eight_halves(score_${i}_${j}_0 - low, score_${i}_${j}_1 - high);
      }`,
  );
  const rests = form.weights === "rough" ? "" : share.each((i, j) => `    var rest_${i}_${j} = vec4u();`);
  return `${share.each((i, j) => both((h) => `    var score_${i}_${j}_${h} = bitcast<vec4f>(${share.score(i, j)} + ${h}u]);`))}
    let isEdge = keyBase + KEYS > seenByAll;
    if (isEdge) {
${share.each((i, j) => both((h) => `      score_${i}_${j}_${h} = select(vec4f(UNSEEN), score_${i}_${j}_${h}, ${seenAt(i, j, h)});`))}
    }
${share.rows((i) => `    high_${i} = max(high_${i}, ${quads(i)});`)}
    if (keyBase == keyStart && !again) {
${share.rows((i) => `      var first_${i} = greatest(high_${i});\n${highest(`first_${i}`)}\n      reference_${i} = first_${i} * scale;`)}
    }
${share.rows((i) => `    let shift_${i} = vec4f(headroom - reference_${i});`)}
${share.each((i, j) => both((h) => `    score_${i}_${j}_${h} = exp2(fma(score_${i}_${j}_${h}, vec4f(scale), shift_${i}));`))}
    if (isEdge) {
${share.each((i, j) => both((h) => `      score_${i}_${j}_${h} = select(vec4f(), score_${i}_${j}_${h}, ${seenAt(i, j, h)});`))}
    }
${share.each((i, j) => both((h) => `    total_${i} += score_${i}_${j}_${h};`))}
${rests}
${form.weights === "mixed" ? `    if (isFine) {\n${fine}\n    } else {\n${rough}\n    }` : form.weights === "fine" ? fine : rough}`;
}

/** Adds weights times values to the output. */
function valuesText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const { pitches, blocks } = attentionLayout(tile, form.columns);
  const share = shares(tile, form);
  const values = tile.separate ? "value_panels" : "key_panels";
  const remainders = `&scores[panelRow * ${tile.across}u]`;
  const left = (from: string, i: number, k: number) =>
    `subgroupMatrixLoad<${operandType("left")}, row_major>(${from}, ${i * SIDE * pitches.weights + 2 * k}u, ${pitches.weights}u)`;
  const product = (weight: string, i: number, j: number) =>
    `      out_${i}_${j} = subgroupMatrixMultiplyAccumulate(${weight}_${i}, value_${j}, out_${i}_${j});`;
  const fine = (text: string) =>
    form.weights === "rough"
      ? ""
      : form.weights === "fine"
        ? `      {\n${text}\n      }`
        : `      if (isFine) {\n${text}\n      }`;
  return `${fine(`${share.each((i, j) => `      scores[panelRow * ${tile.across}u][${share.weight(i, j)}] = rest_${i}_${j};`)}
      workgroupBarrier();`)}
${lines(
  tile.keys / SIDE,
  (k) => `    {
${lines(blocks.rows, (i) => `      let weight_${i} = ${left("&weights[panelRow]", i, k)};`)}
${lines(
  blocks.out,
  (
    j,
  ) => `      let value_${j} = subgroupMatrixLoad<${operandType("right")}, row_major>(&${values}[panelColumn], ${k * SIDE * pitches.values + 2 * j}u, ${pitches.values}u);
${lines(blocks.rows, (i) => product("weight", i, j))}`,
)}
${fine(lines(blocks.rows, (i) => `      let rest_${i} = ${left(remainders, i, k)};\n${lines(blocks.out, (j) => product("rest", i, j))}`))}
    }`,
)}
${tile.separate ? fine("      workgroupBarrier();") : "    workgroupBarrier();"}`;
}

/** Output by way of the scores' memory, as many columns at a time as fit there. */
function storeText(tile: AttentionMatrixTile, form: AttentionMatrixForm): string {
  const { rows, outColumns, pitches, blocks } = attentionLayout(tile, form.columns);
  const share = shares(tile, form);
  const isPart = form.results === "parts";
  return `${share.rows(
    (i) => `  var sum_${i} = add_up(total_${i});
${added(`sum_${i}`)}
  if (place % ${ROW_SHARE}u == 0u) {
    let row = panelBase + ${share.row(i)};
${
  isPart
    ? `    if (row < parameters.rows) {
      statistics[parameters.statistics_offset + resultRow + row] = vec2f(select(LOWEST, reference_${i} - headroom, sum_${i} > 0.0), sum_${i});
    }`
    : `    // A row that sees no key gives zeros.
    weights[panelRow][${share.row(i)}].x = bitcast<u32>(select(0.0, 1.0 / max(sum_${i}, 1.0e-30), sum_${i} > 0.0));`
}
  }`,
  )}
${lines(Math.ceil(blocks.out / blocks.scores), (shot) => {
  const count = Math.min(blocks.scores, blocks.out - shot * blocks.scores);
  const store = (i: number, j: number) =>
    `  subgroupMatrixStore<row_major>(&scores[subgroup], ${i * SIDE * pitches.scores + 4 * j}u, out_${i}_${j + shot * blocks.scores}, ${pitches.scores}u);`;
  return `  workgroupBarrier();
${lines(blocks.rows, (i) => lines(count, (j) => store(i, j)))}
  workgroupBarrier();
  for (var unit = place; unit < ${rows * count * 2}u; unit += ${SUBGROUP}u) {
    let row = unit / ${count * 2}u;
    let octet = unit % ${count * 2}u;
    let at = row * ${pitches.scores}u + octet * 2u;
    let along = panelColumn * ${outColumns / UNIT}u + ${shot * blocks.scores * 2}u + octet;
    if (panelBase + row < parameters.rows && along < headUnits) {
      store_octet((resultRow + panelBase + row) * headUnits + along, ${isPart ? "1.0" : "bitcast<f32>(weights[panelRow][row].x)"},
        bitcast<vec4f>(scores[subgroup][at]), bitcast<vec4f>(scores[subgroup][at + 1u]));
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
 * As `attentionProgram`, with both products on the matrix units of a GPU: f16 operands, f32 sums. WGSL
 * gives no access to the elements of subgroup matrices, so scores go through workgroup memory to
 * invocations, and weights come back as f16.
 *
 * The output cannot be rescaled either, when a larger score comes up. So weights are relative to the
 * largest score of the first step, with room for others 2^LARGEST times as heavy. Where that was not
 * enough for some row, which shows at the end, the workgroup begins again, once, with the largest scores
 * of all, which it then knows.
 */
export const attentionMatrixProgram: (tile: AttentionMatrixTile, form: AttentionMatrixForm) => Program =
  memoized((tile: AttentionMatrixTile, form: AttentionMatrixForm): Program => {
    const { panels, blocks, rows } = attentionLayout(tile, form.columns);
    const { down, across, separate } = tile;
    const { columns, whole, weights, results } = form;
    const share = shares(tile, form);
    const stage = matrixStaging(tile, form);
    const subgroups = down * across;
    const eachOut = (line: (i: number, j: number) => string) =>
      lines(blocks.rows, (i) => lines(blocks.out, (j) => line(i, j)));
    const panel = (name: string, units: number, count: number) =>
      units === 0 ? "" : `var<workgroup> ${name}: array<array<vec4u, ${units}>, ${count}>;`;
    const isFine = `seen_until(firstQuery, parameters.key_length) < ${ROUGH_KEYS}u`;
    const isPart = results === "parts";
    const statistics: Record<string, Storage> = isPart ? { statistics: output("vec2f") } : {};
    return program<string, string>({
      name: `attention_matrices_${attentionMatrixName(tile)}x${columns}${whole ? "" : "_within"}_${weights}_${results}`,
      enable: ["f16", "subgroups", "chromium_experimental_subgroup_matrix"],
      directives: ["diagnostic(off, chromium.subgroup_matrix_uniformity);"],
      bindings: {
        q: input("half8"), // matrices x rows x head_size
        k: input("half8"), // matrices x key_length x head_size
        v: input("half8"), // matrices x key_length x head_size
        results: output(isPart ? "vec4f" : "half8"), // (parts x) matrices x rows x head_size
        ...statistics, // parts x matrices x rows
      },
      parameters: {
        ...{ matrices: "u32", rows: "u32", query_length: "u32", key_length: "u32", head_size: "u32" },
        ...{ part_keys: "u32", scale: "f32", visible: "i32" },
      },
      body: wgsl`
${workgroupIndex}
${halfFunctions}
const ROWS = ${tile.queries}u;
const KEYS = ${tile.keys}u;
const LOWEST = -1.0e38;
const UNSEEN = -2.0e38;
const LARGEST = 15.0; // weights are at most two to this: f16 ends just below 2^16

${panel("key_panels", panels.keys, across)}
${panel("value_panels", panels.values, across)}
${panel("scores", panels.scores, subgroups)}
${panel("weights", panels.weights, down)}
var<workgroup> flags: array<u32, ${subgroups}>;

fn greatest(v: vec4f) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
fn add_up(v: vec4f) -> f32 { return (v.x + v.y) + (v.z + v.w); }
/// The leading bits of f32 numbers, as many as f16 has.
fn leading(v: vec4f) -> vec4f { return bitcast<vec4f>(bitcast<vec4u>(v) & vec4u(0xffffe000u)); }
fn eight_halves(low: vec4f, high: vec4f) -> vec4u {
  return vec4u(pack2x16float(low.xy), pack2x16float(low.zw), pack2x16float(high.xy), pack2x16float(high.zw));
}
${seenFunction}
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
  // The last rows of all matrices come first: they may see most keys, and what starts last should be short.
  let resultsCount = parts * parameters.matrices;
  let rowBase = (tiles - 1u - group / resultsCount) * ROWS;
  let result = group % resultsCount; // part * matrices + matrix
  let matrix = result % parameters.matrices;
  let keyStart = result / parameters.matrices * parameters.part_keys;
  let headUnits = ${whole ? `${columns / UNIT}u` : `parameters.head_size / ${UNIT}u`};
  let firstRow = matrix * parameters.rows;
  let firstKey = matrix * parameters.key_length;
  let resultRow = result * parameters.rows;

${rowLimits}
  let isFine = ${weights === "mixed" ? isFine : `${weights === "fine"}`};
  // Small weights are rounded to multiples of 2^-24. That is less of the largest one where it is larger than 1.
  let headroom = select(0.0, 4.0, isFine);
  let scale = abs(parameters.scale);
  let flip = select(0u, 0x80008000u, parameters.scale < 0.0);

  let panelRow = subgroup / ${across}u;
  let panelColumn = subgroup % ${across}u;
  let panelBase = rowBase + panelRow * ${rows}u;
  let shareBase = panelColumn * ${rows / across}u + place / ${ROW_SHARE}u;
${stage.registers}
${queriesText(tile, form)}
  let zero = ${sum}();
${eachOut((i, j) => `  var out_${i}_${j} = zero;`)}
${share.rows(
  (i) => `  let seen_${i} = seen_until((panelBase + ${share.row(i)}) % parameters.query_length, keyEnd);
  var reference_${i} = LOWEST; // what weights are relative to
  var high_${i} = vec4f(UNSEEN); // of this invocation's scores, not scaled
  var total_${i} = vec4f(); // of its weights`,
)}
  var again = false;
  loop {
${stage.fetch("k", "keyStart")}
${separate ? `${stage.storeKeys}\n    workgroupBarrier();` : ""}
  for (var keyBase = keyStart; keyBase < keyEnd; keyBase += KEYS) {
${separate ? "" : `${stage.storeKeys}\n    workgroupBarrier();`}
${stage.fetch("v", "keyBase")}
${scoresText(tile, form)}
    workgroupBarrier();
${stage.storeValues}
${separate ? stage.fetch("k", "keyBase + KEYS") : ""}
${weightsText(tile, form)}
${separate ? stage.storeKeys : ""}
    workgroupBarrier();
${separate ? "" : stage.fetch("k", "keyBase + KEYS")}
${valuesText(tile, form)}
  }
    workgroupBarrier(); // the last weights and values have been read
${share.rows((i) => `    var most_${i} = greatest(high_${i});\n${highest(`most_${i}`)}`)}
    let isBeyond = ${share.any((i) => `most_${i} * scale > reference_${i} + (LARGEST - headroom)`)};
    let anyBeyond = subgroupAny(isBeyond);
    if (place == 0u) { flags[subgroup] = u32(anyBeyond); }
    let beyond = workgroupUniformLoad(&flags);
    if (again || (${Array.from({ length: subgroups }, (_, i) => `beyond[${i}]`).join(" | ")}) == 0u) { break; }
    again = true;
${share.rows((i) => `    reference_${i} = most_${i} * scale;\n    total_${i} = vec4f();`)}
${eachOut((i, j) => `    out_${i}_${j} = zero;`)}
  }
${storeText(tile, form)}
}
`,
    });
  });
