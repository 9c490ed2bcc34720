import {
  halfFunctions,
  input,
  linearBuiltins,
  lines,
  memoized,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import {
  halvesFunctions,
  hidingBindings,
  hidingFunctions,
  hidingName,
  hidingParameters,
  operandType,
  weightFunction,
} from "../attention/index.js";
import { SIDE, SUBGROUP, UNIT } from "../tiles/index.js";
import { type GradientMatrixForm, ownText, panelOf, staging } from "./matrix-stage.wgsl.js";
import {
  type GradientMatrixTile,
  gradientMatrixLayout,
  gradientMatrixName,
  gradientMatrixThreads,
} from "./matrix-tile.js";
import { limitsText, ownLast, walkText } from "./sides.wgsl.js";

const matrix = `subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>`;

/** Products of the other rows of an operand with the own ones, to workgroup memory, a row for each own one. */
function productText(tile: GradientMatrixTile, { columns }: GradientMatrixForm, operand: 0 | 1): string {
  const { pitches, blocks } = gradientMatrixLayout(tile, columns);
  const each = (line: (i: number, j: number) => string) =>
    lines(blocks.rows, (i) => lines(blocks.others, (j) => line(i, j)));
  const product = (i: number, j: number, d: number) =>
    `    ${d === 0 ? "var " : ""}score_${i}_${j} = subgroupMatrixMultiplyAccumulate(other_${d}_${j}, own_${operand}_${i}_${d}, ${d === 0 ? "zero" : `score_${i}_${j}`});`;
  return `    {
${lines(blocks.columns, (d) =>
  lines(
    blocks.others,
    (
      j,
    ) => `    let other_${d}_${j} = subgroupMatrixLoad<${operandType("left")}, row_major>(&${panelOf(tile, operand)}, ${j * SIDE * pitches.panel + 2 * d}u, ${pitches.panel}u);
${lines(blocks.rows, (i) => product(i, j, d))}`,
  ),
)}
${each((i, j) => `    subgroupMatrixStore<col_major>(&scores[subgroup], ${i * SIDE * pitches.scores + 4 * j}u, score_${i}_${j}, ${pitches.scores}u);`)}
    }`;
}

/** Adds weights, in the place of their scores, times the other rows to a result. */
function weightedText(
  tile: GradientMatrixTile,
  { columns }: GradientMatrixForm,
  operand: 0 | 1,
  result: string,
): string {
  const { pitches, blocks } = gradientMatrixLayout(tile, columns);
  const parts = ["high", "low"] as const;
  const each = (line: (part: string, i: number, at: number) => string) =>
    parts.map((part, p) => lines(blocks.rows, (i) => line(part, i, 2 * p))).join("\n");
  return lines(
    blocks.others,
    (k) => `    {
${each((part, i, at) => `      let ${part}_${i} = subgroupMatrixLoad<${operandType("left")}, row_major>(&scores[subgroup], ${i * SIDE * pitches.scores + 4 * k + at}u, ${pitches.scores}u);`)}
${lines(
  blocks.columns,
  (
    j,
  ) => `      let other_${j} = subgroupMatrixLoad<${operandType("right")}, row_major>(&${panelOf(tile, operand)}, ${k * SIDE * pitches.panel + 2 * j}u, ${pitches.panel}u);
${each((part, i) => `      ${result}_${i}_${j} = subgroupMatrixMultiplyAccumulate(${part}_${i}, other_${j}, ${result}_${i}_${j});`)}`,
)}
    }`,
  );
}

/** The scores of an invocation: `runs` of 16 in one row each. */
function shares(tile: GradientMatrixTile, { side, columns }: GradientMatrixForm) {
  const { runs, pitches, blocks } = gradientMatrixLayout(tile, columns);
  const perRow = blocks.others;
  const row = (n: number) => `((place + ${n * SUBGROUP}u) / ${perRow}u)`;
  const run = (n: number) => `((place + ${n * SUBGROUP}u) % ${perRow}u)`;
  const at = (n: number, q: number) => `${row(n)} * ${pitches.scores}u + ${run(n)} * 4u + ${q}u`;
  return {
    row,
    count: runs,
    runs: (line: (n: number) => string) => lines(runs, line),
    fours: (line: (n: number, q: number) => string) => lines(runs, (n) => lines(4, (q) => line(n, q))),
    at,
    /** The number of the first of four other rows within a step. */
    column: (n: number, q: number) => `${run(n)} * ${SIDE}u + ${4 * q}u`,
    /** What is staged for four other rows. */
    staged: (name: string, n: number, q: number) => `${name}[${run(n)} * 4u + ${q}u]`,
    position: (n: number) =>
      side === "keys" ? `i32(ownBase + ${row(n)})` : `i32((ownBase + ${row(n)}) % parameters.query_length)`,
  };
}

/** Reads scores, and turns them into probabilities, `p_RUN_FOUR`. */
function probabilitiesText(tile: GradientMatrixTile, form: GradientMatrixForm): string {
  const { side, hiding } = form;
  const share = shares(tile, form);
  const isOfKeys = side === "keys";
  const apart = isOfKeys ? "vec4i(own) - columns" : "columns - vec4i(own)";
  const isSeen = `(apart <= vec4i(parameters.visible)) & ${hiding?.window ? "(apart >= vec4i(parameters.oldest)) & " : ""}(columns < vec4i(i32(placeEnd)))`;
  const log = (n: number, q: number) => (isOfKeys ? share.staged("logs", n, q) : `vec4f(statistic_${n}.x)`);
  const places = (n: number, q: number) =>
    isOfKeys
      ? `${share.staged("masks", n, q)} + vec4u(min(ownBase + ${share.row(n)}, ${ownLast.keys}) * parameters.mask_key)`
      : `vec4u(mask_${n}) + min(vec4u(columnBase + ${share.column(n, q)}) + vec4u(0u, 1u, 2u, 3u), vec4u(columnLast)) * parameters.mask_key`;
  const masked =
    hiding?.mask === undefined
      ? ""
      : share.fours((n, q) => {
          const four = ["x", "y", "z", "w"].map((c) => `masked(p_${n}_${q}.${c}, places.${c})`).join(", ");
          return `    { let places = ${places(n, q)}; p_${n}_${q} = vec4f(${four}); }`;
        });
  return `${share.fours((n, q) => `    var p_${n}_${q} = bitcast<vec4f>(scores[subgroup][${share.at(n, q)}]) * parameters.scale;`)}
${masked}
    if (reached < wholeStart || reached + OTHERS > wholeEnd) {
${share.runs(
  (n) => `      { let own = ${share.position(n)};
${lines(4, (q) => `        { let columns = vec4i(i32(reached + ${share.column(n, q)})) + vec4i(0, 1, 2, 3); let apart = ${apart}; p_${n}_${q} = select(vec4f(UNSEEN), p_${n}_${q}, ${isSeen}); }`)} }`,
)}
    }
${share.fours((n, q) => `    p_${n}_${q} = weight(p_${n}_${q} - ${log(n, q)});`)}`;
}

/** Reads the products of outGradient and v, and turns them into S, `s_RUN_FOUR`. */
function changesText(tile: GradientMatrixTile, form: GradientMatrixForm): string {
  const share = shares(tile, form);
  const delta = (n: number, q: number) =>
    form.side === "keys" ? share.staged("deltas", n, q) : `vec4f(statistic_${n}.y)`;
  return share.fours(
    (n, q) =>
      `    let s_${n}_${q} = p_${n}_${q} * (bitcast<vec4f>(scores[subgroup][${share.at(n, q)}]) - ${delta(n, q)});`,
  );
}

/** Writes weights as sums of two f16 numbers into the place of their scores, times a power of two that keeps them in range. */
function splitText(
  tile: GradientMatrixTile,
  form: GradientMatrixForm,
  result: string,
  value: string,
): string {
  const share = shares(tile, form);
  const { blocks } = gradientMatrixLayout(tile, form.columns);
  const all = Array.from({ length: 4 * share.count }, (_, i) => `abs(${value}_${i >> 2}_${i & 3})`);
  return `    let most_${result} = subgroupMax(greatest(${all.reduce((a, b) => `max(${a}, ${b})`)}));
    // Infinity of one row would leave nothing of the others.
    if (most_${result} > limit_${result} && most_${result} < 3.0e38) {
      // 2^14 over the power of two of the largest, by their exponents, and 2^100 at the most.
      let next = bitcast<f32>(min(268u - (bitcast<u32>(most_${result}) >> 23u), 227u) << 23u);
      let change = next / factor_${result};
${lines(blocks.rows, (i) => lines(blocks.columns, (j) => `      ${result}_${i}_${j} = subgroupMatrixScalarMultiply(${result}_${i}_${j}, change);`))}
      factor_${result} = next;
      limit_${result} = 32768.0 / next;
    }
${share.runs((n) =>
  lines(2, (h) => {
    const [low, high] = [`${value}_${n}_${2 * h}`, `${value}_${n}_${2 * h + 1}`];
    return `    {
      let first = ${low} * factor_${result};
      let second = ${high} * factor_${result};
      let leading_first = leading(first);
      let leading_second = leading(second);
      scores[subgroup][${share.at(n, h)}] = eight_halves(leading_first, leading_second);
      scores[subgroup][${share.at(n, 2 + h)}] = eight_halves(first - leading_first, second - leading_second);
    }`;
  }),
)}`;
}

/** Results through the scores' memory, as many columns at a time as fit there. */
function storeText(tile: GradientMatrixTile, form: GradientMatrixForm, result: string): string {
  const { rows, pitches, blocks } = gradientMatrixLayout(tile, form.columns);
  const base = form.side === "keys" ? "key_base" : "query_base";
  const scale = result === "first" ? `(parameters.scale * ${Math.LN2})` : "1.0";
  return `  {
  let inverse = ${scale} / factor_${result};
${lines(Math.ceil(blocks.columns / blocks.others), (shot) => {
  const count = Math.min(blocks.others, blocks.columns - shot * blocks.others);
  const store = (i: number, j: number) =>
    `  subgroupMatrixStore<row_major>(&scores[subgroup], ${i * SIDE * pitches.scores + 4 * j}u, ${result}_${i}_${j + shot * blocks.others}, ${pitches.scores}u);`;
  return `  workgroupBarrier();
${lines(blocks.rows, (i) => lines(count, (j) => store(i, j)))}
  workgroupBarrier();
  for (var unit = place; unit < ${rows * count * 2}u; unit += ${SUBGROUP}u) {
    let row = ownBase + unit / ${count * 2}u;
    let at = unit / ${count * 2}u * ${pitches.scores}u + unit % ${count * 2}u * 2u;
    let along = ${shot * blocks.others * 2}u + unit % ${count * 2}u;
    if (row <= ${ownLast[form.side]} && along < headUnits) {
      store_${result}((${base} + row) * headUnits + along,
        bitcast<vec4f>(scores[subgroup][at]) * inverse, bitcast<vec4f>(scores[subgroup][at + 1u]) * inverse);
    }
  }`;
})}
  }`;
}

/**
 * As `gradientProgram`, with all products on the matrix units of a GPU: f16 operands, f32 sums. As in `attentionMatrixProgram`,
 * invocations read scores from workgroup memory and write weights back, as sums of two f16 numbers, whose error the laws
 * allow: 2^-21, or 2^-39 of the largest weight of a subgroup, if that is more. f16 has a small range. So weights are multiplied
 * by a power of two that leaves the largest one that a subgroup has met between 2^14 and 2^15. If a larger one comes up, the
 * subgroup's sums are multiplied to match.
 */
export const gradientMatrixProgram: (tile: GradientMatrixTile, form: GradientMatrixForm) => Program =
  memoized((tile: GradientMatrixTile, form: GradientMatrixForm): Program => {
    const { side, columns, whole, hiding } = form;
    const { rows, lengths, blocks } = gradientMatrixLayout(tile, columns);
    const isOfKeys = side === "keys";
    const results = isOfKeys ? ["first", "second"] : ["first"];
    const stage = staging(tile, form);
    const share = shares(tile, form);
    const barrier = "    workgroupBarrier();";
    const first = { fetched: stage.fetch(0, "columnBase", "columnLast"), stored: stage.store(0) };
    const other = { fetched: stage.fetch(1, "columnBase", "columnLast"), stored: stage.store(1) };
    const next = stage.fetch(0, "columnNext", "lastNext");
    const inTurns = tile.panels === 1;
    // In turns, each fetch is under way while the rows before it are in use.
    const steps = [
      ...(inTurns ? [first.stored] : [first.fetched, first.stored, other.fetched, other.stored]),
      ...[stage.storeQueries, barrier],
      ...[inTurns ? other.fetched : "", productText(tile, form, 0), barrier],
      ...[probabilitiesText(tile, form), isOfKeys ? splitText(tile, form, "second", "p") : ""],
      ...(inTurns ? [other.stored, barrier, first.fetched] : [barrier]),
      ...(isOfKeys ? [weightedText(tile, form, 1, "second"), barrier] : []),
      ...[productText(tile, form, 1), barrier],
      ...[changesText(tile, form), splitText(tile, form, "first", "s")],
      ...[inTurns ? first.stored : "", barrier, inTurns ? next : ""],
      ...[stage.fetchQueries("columnNext", "lastNext"), weightedText(tile, form, 0, "first"), barrier],
    ];
    return program<string, string>({
      name: `attention_gradient_matrices_${side}_${gradientMatrixName(tile)}x${columns}${whole ? "" : "_within"}${hidingName(hiding)}`,
      enable: ["f16", "subgroups", "chromium_experimental_subgroup_matrix"],
      directives: ["diagnostic(off, chromium.subgroup_matrix_uniformity);"],
      bindings: {
        // matrices x rows (q, g) or key_length (k, v) x head_size
        ...{ q: input("half8"), k: input("half8"), v: input("half8"), g: input("half8") },
        ...hidingBindings(hiding),
        statistics: input("vec2f"), // matrices x rows
        ...Object.fromEntries(results.map((name) => [`${name}_results`, output("half8")])),
      },
      parameters: {
        ...{ matrices: "u32", rows: "u32", query_length: "u32", key_length: "u32", head_size: "u32" },
        ...{ scale: "f32", visible: "i32", ...hidingParameters(hiding) },
      },
      body: wgsl`
${workgroupIndex}
${halfFunctions}
const ROWS = ${tile.rows}u;
const OTHERS = ${tile.others}u;
const UNSEEN = -2.0e38;

${lines(tile.panels, (i) => `var<workgroup> ${panelOf(tile, i === 0 ? 0 : 1)}: array<vec4u, ${lengths.panel}>;`)}
var<workgroup> scores: array<array<vec4u, ${lengths.scores}>, ${tile.subgroups}>;
${stage.memory}

fn greatest(v: vec4f) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
${halvesFunctions}
${weightFunction}
${hidingFunctions(hiding)}
${results
  .map(
    (name) => `fn store_${name}(at: u32, low: vec4f, high: vec4f) {
  ${name}_results[parameters.${name}_results_offset + at] = vec4u(
    pack_halves(low.x, low.y), pack_halves(low.z, low.w), pack_halves(high.x, high.y), pack_halves(high.z, high.w));
}`,
  )
  .join("\n")}

// One workgroup computes ROWS rows of each result.
@compute @workgroup_size(${gradientMatrixThreads(tile)})
fn main(${linearBuiltins}, @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) place: u32) {
  let tiles = (${ownLast[side]} + ROWS) / ROWS;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * parameters.matrices) { return; }
  // The first keys may be seen by most queries, and the last queries see most keys: what starts last should be short.
  let tileNumber = group / parameters.matrices;
  let rowBase = ${isOfKeys ? "tileNumber" : "(tiles - 1u - tileNumber)"} * ROWS;
  let matrix = group % parameters.matrices;
  let headUnits = ${whole ? `${columns / UNIT}u` : `parameters.head_size / ${UNIT}u`};
  let query_base = matrix * parameters.rows;
  let key_base = matrix * parameters.key_length;
${limitsText(side, hiding?.window === true)}
  let ownBase = rowBase + subgroup * ${rows}u;
${stage.registers}
${ownText(tile, form)}
${isOfKeys ? "" : share.runs((n) => `  let statistic_${n} = statistics[parameters.statistics_offset + query_base + min(ownBase + ${share.row(n)}, ${ownLast.queries})];`)}
${isOfKeys || hiding?.mask === undefined ? "" : share.runs((n) => `  let mask_${n} = mask_row(matrix, min(ownBase + ${share.row(n)}, ${ownLast.queries}));`)}
  let zero = ${matrix}();
${results.map((name) => `${lines(blocks.rows, (i) => lines(blocks.columns, (j) => `  var ${name}_${i}_${j} = zero;`))}\n  var factor_${name} = 1.0;\n  var limit_${name} = 0.0; // larger weights need another factor`).join("\n")}
${walkText({
  columns: "OTHERS",
  start: (first, last) => `${inTurns ? stage.fetch(0, first, last) : ""}
${stage.fetchQueries(first, last)}`,
  step: steps.join("\n"),
})}
${results.map((name) => storeText(tile, form, name)).join("\n")}
}
`,
    });
  });
