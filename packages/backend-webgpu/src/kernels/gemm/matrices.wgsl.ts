import {
  halfFunctions,
  input,
  lines,
  memoized,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { epilogueName, storesInLoops } from "../epilogue.wgsl.js";
import { SIDE, SUBGROUP, UNIT } from "../tiles/index.js";
import { operandParameters, tilePrologue } from "./gemm.wgsl.js";
import { type MatrixTile, matrixThreads, matrixTileName } from "./matrix-tile.js";
import { type Panels, panelsOf } from "./panels.wgsl.js";
import { type ResultForm, resultParameters, resultText, storesHalves } from "./results.wgsl.js";

/** With `target` "matrix" and without `vectorC`, results of f16 are stored one by one. */
export interface MatrixForm extends ResultForm {
  readonly transA: boolean;
  readonly transB: boolean;
}

/** Matrices of results side by side that a subgroup stores at a time. */
const STRIP = 2;

/**
 * Stores the results, strip by strip. Each subgroup uses an area of its own in its panel of A, or in that of
 * B if the panels of A are too small for all subgroups that share them.
 *
 * A workgroup runs this code once, so that its length costs more than its work: it is a loop, in which only
 * the choice of the strip is written out. (All written out with a bias: 191 instead of 281 TFLOP/s on an
 * NVIDIA H200, with gelu 156.)
 */
function storeResults(tile: MatrixTile, a: Panels, b: Panels, form: MatrixForm): string {
  const [down, across] = [tile.subgroupRows / SIDE, tile.subgroupColumns / SIDE / STRIP];
  const columns = STRIP * SIDE;
  const quads = columns / 4;
  const pitch = quads + 1; // units from one row of a strip to the next, with padding
  const areas = ({ layout }: Panels) => Math.floor(layout.units / (SIDE * pitch));
  const inA = areas(a) >= b.layout.panels;
  if (!Number.isInteger(across) || (!inA && areas(b) < a.layout.panels))
    throw new RangeError(`${matrixTileName(tile)} leaves no room for results`);
  const [panel, place, sharing] = inA
    ? ["a_panels[panelRow]", "panelColumn", b.layout.panels]
    : ["b_panels[panelColumn]", "panelRow", a.layout.panels];
  const stage = (i: number, strip: number) =>
    lines(STRIP, (j) => {
      const at = j === 0 ? "area" : `area + ${(j * SIDE) / 4}u`;
      return `  subgroupMatrixStore<row_major>(&${panel}, ${at}, sum_${i}_${strip * STRIP + j}, ${pitch}u);`;
    });
  // An invocation has the same quad of columns in each strip, so that its bias is read once.
  const isBiased = form.bias === true && form.vectorC === true;
  const bias = (strip: number) =>
    `  let bias_${strip} = bias_quad(min(firstColumn + ${strip * columns}u + column, parameters.n - 4u), 3u);`;
  const biasOf = (strip: number): string =>
    strip === 0 ? "bias_0" : `select(${biasOf(strip - 1)}, bias_${strip}, strip % ${across}u == ${strip}u)`;
  const rowsAtOnce = SUBGROUP / quads;
  const rounds = SIDE / rowsAtOnce;
  const stored = (row: string, values: string) =>
    `${isBiased ? "store_biased" : "store_quad"}(result, firstRow + strip / ${across}u * ${SIDE}u + ${row}, firstColumn + strip % ${across}u * ${columns}u + column, ${values}${isBiased ? ", added" : ""});`;
  const storeInLoop = `  for (var row = place / ${quads}u; row < ${SIDE}u; row += ${rowsAtOnce}u) {
    let values = bitcast<vec4f>(${panel}[area + row * ${pitch}u + place % ${quads}u]);
    ${stored("row", "values")}
  }`;
  // All loads first; in the loop each waits for the store before it: 335 instead of 321 TFLOP/s (4096^3, NVIDIA H100).
  const storeAtOnce = `  let row = place / ${quads}u % ${rowsAtOnce}u;
  let at = area + row * ${pitch}u + place % ${quads}u;
${lines(rounds, (i) => `  let values_${i} = bitcast<vec4f>(${panel}[at + ${i * rowsAtOnce * pitch}u]);`)}
${lines(rounds, (i) => `  ${stored(`row + ${i * rowsAtOnce}u`, `values_${i}`)}`)}`;
  // Neighbours have neighbouring columns, and each writes its halves by itself.
  const ofRow = (row: string, i: number) =>
    `bitcast<f32>(${panel}[area + (${row} + ${i}u) * ${pitch}u + place / 4u][place % 4u])`;
  const fourRows = (row: string) => `vec4f(${[0, 1, 2, 3].map((i) => ofRow(row, i)).join(", ")})`;
  const storeRows = (row: string, values: string) =>
    `store_rows(result, firstRow + strip / ${across}u * ${SIDE}u + ${row}, firstColumn + strip % ${across}u * ${columns}u + place, ${values});`;
  const storeRowsInLoop = `  for (var row = 0u; row < ${SIDE}u; row += 4u) {
    ${storeRows("row", fourRows("row"))}
  }`;
  const storeRowsAtOnce = `${lines(SIDE / 4, (i) => `  let rows_${i} = ${fourRows(`${4 * i}u`)};`)}
${lines(SIDE / 4, (i) => `  ${storeRows(`${4 * i}u`, `rows_${i}`)}`)}`;
  const inLoop = storesInLoops(form);
  const whole = inLoop ? storeInLoop : storeAtOnce;
  const single = inLoop ? storeRowsInLoop : storeRowsAtOnce;
  // The remainder changes nothing, but bounds the place.
  return `  let firstRow = rowBase + panelRow * ${tile.subgroupRows}u;
  let firstColumn = columnBase + panelColumn * ${tile.subgroupColumns}u;
  let area = ${place} % ${sharing}u * ${SIDE * pitch}u;
  let column = place % ${quads}u * 4u;
${isBiased ? lines(across, bias) : ""}
  // Always ${down * across}, but not for the compiler, which might write out the loop.
  let strips = select(${down * across}u, 0u, parameters.k == 0u);
  for (var strip = 0u; strip < strips; strip++) {
  workgroupBarrier();
  switch (strip) {
${lines(down, (i) => lines(across, (strip) => `    case ${i * across + strip}u: {\n${stage(i, strip)}\n    }`))}
    default: {}
  }
  workgroupBarrier();
${isBiased ? `  let added = ${biasOf(across - 1)};` : ""}
${storesHalves(form) ? single : whole}
  }`;
}

/** Steps of k within which workgroups begin at different places, and how many places there are. */
const SPAN = 512;
const TURNS = 8;

/**
 * Walks through k in steps of `depth`. The subgroup matrices of 16 steps of k are read from the staged data
 * while those of the 16 before are multiplied, from one of two sets of variables into the other. While the
 * last ones are multiplied, the next step is already staged and its first ones are read. Data is read into
 * registers before it is staged. So the matrix units rest for little more than the barriers.
 *
 * The loads from A and B stand between two barriers, since drivers otherwise postpone them until the values
 * are stored: 181 TFLOP/s without the barriers, 315 with them (128 x 256, 4096^3, NVIDIA H200). It depends on
 * details: with one counter of steps instead of three, `(row + 8)` kept for each load, and the results stored
 * column by column, it was 281; without the branch around the part past the end of k, 205.
 *
 * Workgroups that share rows of A or columns of B walk through each `SPAN` of k from different places on,
 * round and round, so that another one has brought most of the data to the cache: if all wait for the memory
 * at the same time, that takes a tenth of the time. So the order of a sum depends on its tile.
 */
function stagedLoop(tile: MatrixTile, a: Panels, b: Panels): string {
  const steps = tile.depth / SIDE;
  if (steps % 2 !== 0) throw new RangeError(`${matrixTileName(tile)}: the steps do not alternate`);
  const [down, across] = [tile.subgroupRows / SIDE, tile.subgroupColumns / SIDE];
  const declare = (
    set: number,
  ) => `${lines(down, (i) => `  var left_${set}_${i}: subgroup_matrix_left<f16, ${SIDE}, ${SIDE}>;`)}
${lines(across, (j) => `  var right_${set}_${j}: subgroup_matrix_right<f16, ${SIDE}, ${SIDE}>;`)}`;
  const read = (step: number) => `${lines(down, (i) => `    left_${step % 2}_${i} = ${a.matrix(i, step)};`)}
${lines(across, (j) => `    right_${step % 2}_${j} = ${b.matrix(j, step)};`)}`;
  const multiply = (step: number) =>
    lines(across, (j) =>
      lines(down, (i) => {
        const factors = `left_${step % 2}_${i}, right_${step % 2}_${j}`;
        return `    sum_${i}_${j} = subgroupMatrixMultiplyAccumulate(${factors}, sum_${i}_${j});`;
      }),
    );
  const store = `    if (held + DEPTH <= k) {
${a.store}
${b.store}
    } else {
${a.storeEnd}
${b.storeEnd}
    }
    held += DEPTH;`;
  const load = `    {
      let gone = depthBase - depthStart;
      let span = depthBase - gone % ${SPAN}u;
      depthAt = select(depthBase, span + (gone + turn) % ${SPAN}u, span + ${SPAN}u <= k);
    }
${a.load}
${b.load}`;
  return `  let turn = (rowBase / ROWS + columnBase / COLUMNS) % ${TURNS}u * ${SPAN / TURNS}u;
  let last = k - 1u;
  var depthBase = depthStart; // the step that is loaded next, in order
  var depthAt = 0u; // what is loaded for it
  var held = depthStart; // the step that the registers hold
${load}
${store}
  depthBase += DEPTH;
${declare(0)}
${declare(1)}
${load}
  workgroupBarrier();
${read(0)}
  var done = depthStart;
  loop {
${lines(steps - 1, (step) => `${read(step + 1)}\n${multiply(step)}`)}
    done += DEPTH;
    if (done >= k) { break; }
    workgroupBarrier();
${store}
    depthBase += DEPTH;
${load}
    workgroupBarrier();
${read(0)}
${multiply(steps - 1)}
  }
${multiply(steps - 1)}`;
}

/** As `tiledProgram`, with rows of A and B that are whole units. */
export const matrixProgram: (tile: MatrixTile, form: MatrixForm) => Program = memoized(
  (tile: MatrixTile, form: MatrixForm): Program => {
    const a = panelsOf(tile, "a", !form.transA);
    const b = panelsOf(tile, "b", form.transB);
    const result = resultText(form);
    const [down, across] = [tile.subgroupRows / SIDE, tile.subgroupColumns / SIDE];
    const transposes = `a${form.transA ? "t" : ""}b${form.transB ? "t" : ""}`;
    const ends = [form.overwritesC ? "" : "_c", form.vectorC ? "" : "_each", epilogueName(form)].join("");
    return program({
      name: `gemm_matrices_${matrixTileName(tile)}_${transposes}_${form.target}${ends}`,
      enable: ["f16", "subgroups", "chromium_experimental_subgroup_matrix"],
      directives: ["diagnostic(off, chromium.subgroup_matrix_uniformity);"],
      bindings: { a: input("half8"), b: input("half8"), ...result.bindings },
      parameters: { ...resultParameters, ...operandParameters },
      uniform: true,
      body: wgsl`
${workgroupIndex}
${halfFunctions}
${result.functions}
const ROWS = ${tile.rows}u;
const COLUMNS = ${tile.columns}u;
const DEPTH = ${tile.depth}u;
const a_unit = ${UNIT}u;
const b_unit = ${UNIT}u;

${a.declaration}
${b.declaration}

// One workgroup computes ROWS x COLUMNS results, one subgroup ${tile.subgroupRows} x ${tile.subgroupColumns} of them.
@compute @workgroup_size(${matrixThreads(tile)})
fn main(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
  @builtin(subgroup_id) subgroup: u32,
  @builtin(subgroup_invocation_id) place: u32,
) {
${tilePrologue}
  let panelRow = subgroup / ${b.layout.panels}u;
  let panelColumn = subgroup % ${b.layout.panels}u;
${a.prepare}
${b.prepare}
${lines(down, (i) => lines(across, (j) => `  var sum_${i}_${j}: subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>;`))}
${stagedLoop(tile, a, b)}
${storeResults(tile, a, b, form)}
}
`,
    });
  },
);
