import { input, memoized, type Program, program } from "../../../program.js";
import { wgsl, workgroupIndex } from "../../../wgsl.js";
import { epilogueName } from "../../epilogue.wgsl.js";
import { operandParameters, tilePrologue } from "../gemm.wgsl.js";
import { lines } from "../lines.js";
import {
  type MatrixTile,
  matrixThreads,
  matrixTileName,
  panelsBytes,
  panelsOf,
  SIDE,
  SUBGROUP,
  UNIT,
} from "../matrices.wgsl.js";
import { type ResultForm, resultParameters, resultText } from "../operands.wgsl.js";
import { stagedLoop } from "../product.wgsl.js";
import { LOW_SHIFT } from "./pass.wgsl.js";
import { wideBinding, wideParameters, wideText } from "./wide.wgsl.js";

/** f32 from one row to the next where a subgroup stages results on their way to C. */
const RESULT_PITCH = SIDE + 4;
/** Quads of a row, rows that a subgroup has hands for at a time, and times it takes for a matrix. */
const QUADS = SIDE / 4;
const RESULT_ROWS: number = SUBGROUP / QUADS;
const ROUNDS: number = SIDE / RESULT_ROWS;

/** Workgroup memory in bytes. */
export function splitBytes(tile: MatrixTile): number {
  return panelsBytes(tile) + 4 * SIDE * RESULT_PITCH * (matrixThreads(tile) / SUBGROUP);
}

/** Statements that finish and store matrix (i, j) of the results of a subgroup. */
function storeMatrix(i: number, j: number): string {
  const stage = (sum: string, to: string) => `    workgroupBarrier();
    subgroupMatrixStore<row_major>(&staged[subgroup], 0u, ${sum}_${i}_${j}, ${RESULT_PITCH}u);
    workgroupBarrier();
${lines(ROUNDS, (round) => `    let ${to}_${round} = staged_quad(subgroup, at + ${round * RESULT_ROWS * RESULT_PITCH}u);`)}`;
  const store = (round: number) =>
    `    store_sums(matrix, result, row + ${SIDE * i + RESULT_ROWS * round}u, column + ${SIDE * j}u, high_${round}, low_${round});`;
  return `  {
${stage("high", "high")}
${stage("low", "low")}
${lines(ROUNDS, store)}
  }`;
}

/**
 * C[i] = alpha * op(A[i]) * op(B[i]) + beta * C[i] for f32 operands that were split into f16 (see
 * `pass.wgsl.ts`), on matrix units, without the blocks of `tile` that have wide lines. Of the four products
 * of parts
 *
 *   high_a high_b + 2^-11 (high_a low_b + low_a high_b) + 2^-22 low_a low_b
 *
 * the last is left out, as it is at most 2^-22 |a b|; the middle ones have sums of their own, so that they
 * are added to the first at their own size. `depth` of the tile counts parts: two to an element.
 */
export const splitProgram: (tile: MatrixTile, form: ResultForm) => Program = memoized(
  (tile: MatrixTile, form: ResultForm): Program => {
    const a = panelsOf(tile, "a", true);
    const b = panelsOf(tile, "b", true);
    const result = resultText(form);
    const [down, across] = [tile.subgroupRows / SIDE, tile.subgroupColumns / SIDE];
    const each = (line: (i: number, j: number) => string) =>
      lines(down, (i) => lines(across, (j) => line(i, j)));
    const add = (sum: string, left: string, right: string) =>
      `      ${sum} = subgroupMatrixMultiplyAccumulate(${left}, ${right}, ${sum});`;
    const steps = lines(
      tile.depth / SIDE / 2,
      (step) => `    {
${lines(down, (i) => `      let left_high_${i} = ${a.matrix(i, 2 * step)};\n      let left_low_${i} = ${a.matrix(i, 2 * step + 1)};`)}
${lines(
  across,
  (j) => `      let right_high_${j} = ${b.matrix(j, 2 * step)};
      let right_low_${j} = ${b.matrix(j, 2 * step + 1)};
${lines(down, (i) => add(`high_${i}_${j}`, `left_high_${i}`, `right_high_${j}`))}
${lines(down, (i) => add(`low_${i}_${j}`, `left_high_${i}`, `right_low_${j}`))}
${lines(down, (i) => add(`low_${i}_${j}`, `left_low_${i}`, `right_high_${j}`))}`,
)}
    }`,
    );
    const aligned = form.vectorC ? `_c4${form.overwritesC ? "" : "_c"}` : "";
    return program({
      name: `gemm_split_${matrixTileName(tile)}${aligned}${epilogueName(form)}`,
      enable: ["f16", "subgroups", "chromium_experimental_subgroup_matrix"],
      directives: ["diagnostic(off, chromium.subgroup_matrix_uniformity);"],
      bindings: {
        a: input("half8"), // matrices x rows x a_pitch
        b: input("half8"), // matrices x columns x b_pitch
        exponents: input("i32"), // those of rows; those of columns
        ...wideBinding,
        ...result.bindings,
      },
      parameters: {
        ...resultParameters,
        ...operandParameters,
        ...wideParameters,
        // Exponents from one matrix to the next; where those of columns start.
        ...{ row_step: "u32", column_step: "u32", column_exponents: "u32" },
      },
      uniform: true,
      body: wgsl`
${workgroupIndex}
${result.functions}
${wideText(tile)}
const ROWS = ${tile.rows}u;
const COLUMNS = ${tile.columns}u;
const DEPTH = ${tile.depth}u;
const a_unit = ${UNIT}u;
const b_unit = ${UNIT}u;

${a.declaration}
${b.declaration}
// Results on their way to C, an array for each subgroup.
var<workgroup> staged: array<array<f32, ${SIDE * RESULT_PITCH}>, ${matrixThreads(tile) / SUBGROUP}>;

fn staged_quad(subgroup: u32, at: u32) -> vec4f {
  return vec4f(
    staged[subgroup][at], staged[subgroup][at + 1u], staged[subgroup][at + 2u], staged[subgroup][at + 3u]);
}

fn power_of_two(exponent: i32) -> f32 { return bitcast<f32>(u32(exponent + 127) << 23u); }

fn store_sums(matrix: u32, result: u32, row: u32, column: u32, high: vec4f, low: vec4f) {
  if (row >= parameters.m || column >= parameters.n) { return; }
  let of_row = exponents[parameters.exponents_offset + matrix * parameters.row_step + row];
  let first = parameters.exponents_offset + parameters.column_exponents + matrix * parameters.column_step + column;
  let last = parameters.n - 1u - column;
  var sums = high + low * ${1 / 2 ** LOW_SHIFT};
  for (var i = 0u; i < 4u; i++) {
    // Those of lines are from -114 to 113. In two steps, since the power of their sum is out of range.
    let exponent = of_row + exponents[first + min(i, last)];
    sums[i] = sums[i] * power_of_two(exponent / 2) * power_of_two(exponent - exponent / 2);
  }
  store_quad(result, row, column, sums);
}

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
  if (is_wide(matrix, rowBase, columnBase)) { return; }
  let panelRow = subgroup / ${tile.columns / tile.subgroupColumns}u;
  let panelColumn = subgroup % ${tile.columns / tile.subgroupColumns}u;
${a.prepare}
${b.prepare}
${each((i, j) => `  var high_${i}_${j}: subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>;\n  var low_${i}_${j}: subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>;`)}
${stagedLoop(a, b, steps)}
  let row = rowBase + panelRow * ${tile.subgroupRows}u + place / ${QUADS}u;
  let column = columnBase + panelColumn * ${tile.subgroupColumns}u + place % ${QUADS}u * 4u;
  let at = place / ${QUADS}u * ${RESULT_PITCH}u + place % ${QUADS}u * 4u;
${each(storeMatrix)}
}
`,
    });
  },
);
