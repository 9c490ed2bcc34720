import { input, memoized, type Program, program } from "../../program.js";
import { halfFunctions, wgsl, workgroupIndex } from "../../wgsl.js";
import { epilogueName } from "../epilogue.wgsl.js";
import { operandParameters, tilePrologue } from "./gemm.wgsl.js";
import { lines } from "./lines.js";
import { type ResultForm, resultParameters, resultText } from "./operands.wgsl.js";
import { type Stage, stagedLoop } from "./product.wgsl.js";

/**
 * A product on the matrix units of a GPU: f16 operands, f32 sums, through WGSL's experimental subgroup
 * matrices of 16 x 16 x 16. A workgroup computes `rows` x `columns`, each of its subgroups of 32
 * invocations `subgroupRows` x `subgroupColumns` of them. Those are multiples of 16, `depth` too.
 */
export interface MatrixTile {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly subgroupRows: number;
  readonly subgroupColumns: number;
}

/** A kernel of this kind writes quads only. */
export interface MatrixForm extends ResultForm {
  readonly vectorC: true;
  readonly transA: boolean;
  readonly transB: boolean;
}

export const SUBGROUP = 32;
/** Elements of a side of a subgroup matrix, and of a load from memory (a vec4<u32>). */
export const SIDE = 16;
const UNIT = 8;
/** Results that a subgroup stages at a time, on their way to C: two matrices side by side. */
const RESULT_ROWS = SIDE;
const RESULT_COLUMNS = 2 * SIDE;
const RESULT_PITCH = RESULT_COLUMNS + 4;

/** Such as `128x128x32_64x64`. */
export function matrixTileName(tile: MatrixTile): string {
  return `${tile.rows}x${tile.columns}x${tile.depth}_${tile.subgroupRows}x${tile.subgroupColumns}`;
}

export function matrixThreads(tile: MatrixTile): number {
  return (tile.rows / tile.subgroupRows) * (tile.columns / tile.subgroupColumns) * SUBGROUP;
}

/** Workgroup memory in bytes, with room for results for each subgroup. */
export function matrixBytes(tile: MatrixTile): number {
  const panels = (extent: number, panel: number) =>
    (extent / panel) * Math.max(panelUnits(panel, tile.depth, true), panelUnits(panel, tile.depth, false));
  const units = panels(tile.rows, tile.subgroupRows) + panels(tile.columns, tile.subgroupColumns);
  return 16 * units + 4 * RESULT_ROWS * RESULT_PITCH * (matrixThreads(tile) / SUBGROUP);
}

/** Units from one stored row of a panel to the next: odd, to spread the banks. */
function panelPitch(panel: number, depth: number, contiguousDepth: boolean): number {
  return (contiguousDepth ? depth : panel) / UNIT + 1;
}

function panelUnits(panel: number, depth: number, contiguousDepth: boolean): number {
  return (contiguousDepth ? panel : depth) * panelPitch(panel, depth, contiguousDepth);
}

/** How one operand is staged as it is stored, and read as subgroup matrices. */
interface Panels extends Stage {
  readonly declaration: string;
  /** The text that reads matrix `i` of the step that starts at `16 * step`. */
  matrix(i: number, step: number): string;
}

/**
 * Each row (or column) of subgroups has a panel, which is an array of its own: so the places of
 * subgroup matrices within it are constants, which are proved inside it when the kernel is compiled.
 * Checks at run time would cost a third of the speed.
 */
function panelsOf(tile: MatrixTile, name: "a" | "b", contiguousDepth: boolean): Panels {
  const left = name === "a";
  const [extent, panel] = left ? [tile.rows, tile.subgroupRows] : [tile.columns, tile.subgroupColumns];
  const { depth } = tile;
  const pitch = panelPitch(panel, depth, contiguousDepth);
  const threads = matrixThreads(tile);
  const perRow = (contiguousDepth ? depth : extent) / UNIT;
  const rounds = (extent * depth) / UNIT / threads;
  if (!Number.isInteger(rounds)) throw new RangeError(`${matrixTileName(tile)} does not divide evenly`);
  const each = (line: (round: number) => string) => lines(rounds, line);
  const [origin, limit] = left ? ["rowBase", "parameters.m"] : ["columnBase", "parameters.n"];
  const place = (round: number) => {
    const [row, part] = [`${name}_row_${round}`, `${name}_part_${round}`];
    // Rows and columns past the end repeat the last ones; their results are never stored.
    return contiguousDepth
      ? {
          start: `min(${origin} + ${row}, ${limit} - 1u) * parameters.${name}_pitch + ${part} * ${UNIT}u`,
          further: "depthBase",
          depth: `${part} * ${UNIT}u`,
          panel: `${row} / ${panel}u`,
          at: `${row} % ${panel}u * ${pitch}u + ${part}`,
        }
      : {
          start: `min(${origin} + ${part} * ${UNIT}u, ${limit} - ${UNIT}u) + ${row} * parameters.${name}_pitch`,
          further: `depthBase * parameters.${name}_pitch`,
          depth: row,
          panel: `${part} / ${panel / UNIT}u`,
          at: `${row} * ${pitch}u + ${part} % ${panel / UNIT}u`,
        };
  };
  const value = (round: number) => `${name}[(${name}_start_${round} + ${place(round).further}) / ${UNIT}u]`;
  const side = left ? "left" : "right";
  const order = contiguousDepth === left ? "row_major" : "col_major";
  const load = `subgroupMatrixLoad<subgroup_matrix_${side}<f16, ${SIDE}, ${SIDE}>, ${order}>`;
  return {
    declaration: `var<workgroup> ${name}_panels: array<array<vec4u, ${panelUnits(panel, depth, contiguousDepth)}>, ${extent / panel}>;`,
    prepare: each(
      (i) => `  let ${name}_row_${i} = (lane + ${i * threads}u) / ${perRow}u;
  let ${name}_part_${i} = (lane + ${i * threads}u) % ${perRow}u;
  let ${name}_start_${i} = ${name}_base + ${place(i).start};
  var ${name}_value_${i} = vec4u();`,
    ),
    load: each(
      (i) => `    ${name}_value_${i} = vec4u();
    if (depthBase + ${place(i).depth} < k) { ${name}_value_${i} = ${value(i)}; }`,
    ),
    loadWhole: each((i) => `    ${name}_value_${i} = ${value(i)};`),
    store: each((i) => `    ${name}_panels[${place(i).panel}][${place(i).at}] = ${name}_value_${i};`),
    matrix: (i, step) => {
      const [row, unit] = contiguousDepth ? [SIDE * i, 2 * step] : [SIDE * step, 2 * i];
      const from = `&${name}_panels[${left ? "panelRow" : "panelColumn"}]`;
      return `${load}(${from}, ${row * pitch + unit}u, ${pitch}u)`;
    },
  };
}

/**
 * Stores two neighbouring matrices of results. In a loop, since what is done to each quad is long:
 * written out for every one, it would slow the whole kernel down by a quarter.
 */
function storePair(i: number, pair: number): string {
  const quads = RESULT_COLUMNS / 4;
  const store = (j: number) =>
    `subgroupMatrixStore<row_major>(&staged[subgroup], ${SIDE * (j % 2)}u, sum_${i}_${j}, ${RESULT_PITCH}u);`;
  return `  workgroupBarrier();
  ${store(2 * pair)}
  ${store(2 * pair + 1)}
  workgroupBarrier();
  for (var quad = place; quad < ${RESULT_ROWS * quads}u; quad += ${SUBGROUP}u) {
    let row = quad / ${quads}u;
    let column = quad % ${quads}u * 4u;
    let at = row * ${RESULT_PITCH}u + column;
    let values = vec4f(
      staged[subgroup][at], staged[subgroup][at + 1u], staged[subgroup][at + 2u], staged[subgroup][at + 3u]);
    store_quad(result, firstRow + ${SIDE * i}u + row, firstColumn + ${RESULT_COLUMNS * pair}u + column, values);
  }`;
}

/**
 * As `tiledProgram`, with rows of A and B that are whole and aligned runs of eight. One staged tile is
 * as fast as two: several workgroups share a multiprocessor, and some compute while others wait.
 */
export const matrixProgram: (tile: MatrixTile, form: MatrixForm) => Program = memoized(
  (tile: MatrixTile, form: MatrixForm): Program => {
    const a = panelsOf(tile, "a", !form.transA);
    const b = panelsOf(tile, "b", form.transB);
    const result = resultText(form);
    const [down, across] = [tile.subgroupRows / SIDE, tile.subgroupColumns / SIDE];
    const each = (line: (i: number, j: number) => string) =>
      lines(down, (i) => lines(across, (j) => line(i, j)));
    const product = (i: number, j: number) =>
      `      sum_${i}_${j} = subgroupMatrixMultiplyAccumulate(left_${i}, right_${j}, sum_${i}_${j});`;
    const steps = lines(
      tile.depth / SIDE,
      (step) => `    {
${lines(down, (i) => `      let left_${i} = ${a.matrix(i, step)};`)}
${lines(across, (j) => `      let right_${j} = ${b.matrix(j, step)};\n${lines(down, (i) => product(i, j))}`)}
    }`,
    );
    const transposes = `a${form.transA ? "t" : ""}b${form.transB ? "t" : ""}`;
    return program({
      name: `gemm_matrices_${matrixTileName(tile)}_${transposes}_${form.target}${form.overwritesC ? "" : "_c"}${epilogueName(form)}`,
      enable: ["f16", "subgroups", "chromium_experimental_subgroup_matrix"],
      directives: ["diagnostic(off, chromium.subgroup_matrix_uniformity);"],
      bindings: { a: input("half8"), b: input("half8"), ...result.bindings },
      parameters: { ...resultParameters, ...operandParameters },
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
// Results on their way to C, an array for each subgroup.
var<workgroup> staged: array<array<f32, ${RESULT_ROWS * RESULT_PITCH}>, ${matrixThreads(tile) / SUBGROUP}>;

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
  let panelRow = subgroup / ${tile.columns / tile.subgroupColumns}u;
  let panelColumn = subgroup % ${tile.columns / tile.subgroupColumns}u;
${a.prepare}
${b.prepare}
${each((i, j) => `  var sum_${i}_${j}: subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>;`)}
${stagedLoop(a, b, steps)}
  let firstRow = rowBase + panelRow * ${tile.subgroupRows}u;
  let firstColumn = columnBase + panelColumn * ${tile.subgroupColumns}u;
${lines(down, (i) => lines(across / 2, (pair) => storePair(i, pair)))}
}
`,
    });
  },
);
