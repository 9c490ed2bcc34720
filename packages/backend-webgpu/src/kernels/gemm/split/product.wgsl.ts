import {
  input,
  lines,
  memoized,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../../program/index.js";
import { epilogueName } from "../../epilogue.wgsl.js";
import { SIDE, SUBGROUP } from "../../tiles/index.js";
import { operandParameters, tilePrologue } from "../gemm.wgsl.js";
import { type MatrixTile, matrixThreads, matrixTileName } from "../matrix-tile.js";
import { type ResultForm, resultParameters, resultText } from "../results.wgsl.js";
import { LOW_SHIFT } from "./pass.wgsl.js";
import { panelPitch, UNIT } from "./split-tile.js";
import { wideBinding, wideParameters, wideText } from "./wide.wgsl.js";

/** Quads of a row of a matrix of results, and of all of it: as many units of a panel. */
const QUADS = SIDE / 4;
const MATRIX: number = SIDE * QUADS;

/** Where the lines of one operand are read from: units of the binding `a` or `b`. */
export interface LinePlaces {
  /** Statements before the loop, for a workgroup that loads `linesAtOnce` lines in each of `rounds` rounds. */
  readonly prepare: (rounds: number, linesAtOnce: number) => string;
  /** WGSL expression: the unit that an invocation loads in a round. */
  readonly unit: (round: number) => string;
  /** Statements before the loads of every step but the first. Default: none. */
  readonly advance?: string;
}

/** Lines one after the other, from `a_base` or `b_base` on. */
export function rowsOf(tile: MatrixTile, name: "a" | "b"): LinePlaces {
  const perLine = tile.depth / UNIT;
  return {
    prepare: (
      _,
      linesAtOnce,
    ) => `  let ${name}_start = (${name}_base + (${name === "a" ? "rowBase" : "columnBase"} + lane / ${perLine}u) * parameters.${name}_pitch) / ${UNIT}u
    + lane % ${perLine}u;
  let ${name}_further = ${linesAtOnce}u * parameters.${name}_pitch / ${UNIT}u;`,
    unit: (round) => `${name}_start + ${round}u * ${name}_further + unit`,
  };
}

/**
 * Stages the lines of A or B that a workgroup multiplies: `tile.depth` parts of each at a time. Each row (or
 * column) of subgroups has a panel, which is an array of its own: so places in it are constants, or constants
 * further than an invocation's own, which Tint proves inside it.
 */
function panelsOf(tile: MatrixTile, name: "a" | "b", places: LinePlaces) {
  const isLeft = name === "a";
  const [extent, panel] = isLeft ? [tile.rows, tile.subgroupRows] : [tile.columns, tile.subgroupColumns];
  const perLine = tile.depth / UNIT;
  const linesAtOnce = matrixThreads(tile) / perLine;
  const rounds = extent / linesAtOnce;
  if (!Number.isInteger(rounds) || panel % linesAtOnce !== 0)
    throw new RangeError(`${matrixTileName(tile)} does not divide evenly`);
  const pitch = panelPitch(tile);
  const order = isLeft ? "row_major" : "col_major";
  const load = `subgroupMatrixLoad<subgroup_matrix_${isLeft ? "left" : "right"}<f16, ${SIDE}, ${SIDE}>, ${order}>`;
  return {
    declaration: `var<workgroup> ${name}_panels: array<array<vec4u, ${panel * pitch}>, ${extent / panel}>;`,
    prepare: `${places.prepare(rounds, linesAtOnce)}
${lines(rounds, (i) => `  var ${name}_value_${i}: vec4u;`)}`,
    advance: places.advance ?? "",
    load: lines(rounds, (i) => `    ${name}_value_${i} = ${name}[${places.unit(i)}];`),
    store: lines(rounds, (i) => {
      const line = i * linesAtOnce;
      return `    ${name}_panels[${Math.floor(line / panel)}][place_in_panel + ${(line % panel) * pitch}u] = ${name}_value_${i};`;
    }),
    /** Reads matrix `i` of the step that starts at `16 * step`. */
    matrix: (i: number, step: number) =>
      `${load}(&${name}_panels[${isLeft ? "panelRow" : "panelColumn"}], ${SIDE * i * pitch + (SIDE / UNIT) * step}u, ${pitch}u)`,
  };
}

/** Multiplies step by step from `depthStart` to `k`; the next step is read into registers meanwhile. */
function stagedLoop(
  tile: MatrixTile,
  { advance, load, store, steps }: Readonly<Record<"advance" | "load" | "store" | "steps", string>>,
): string {
  return `  var unit = depthStart / ${UNIT}u;
${load}
  loop {
${store}
    workgroupBarrier();
    unit += ${tile.depth / UNIT}u;
    if (unit < k / ${UNIT}u) {${advance}
${load}
    }
${steps}
    if (unit >= k / ${UNIT}u) { break; }
    workgroupBarrier();
  }`;
}

/**
 * Returns statements that finish and store matrix (i, j) of the results of a subgroup, through its share of
 * the panels of A, which nobody reads any more. The loop keeps the text short.
 */
function storeMatrix(i: number, j: number, storeSums: SplitText["storeSums"]): string {
  const stage = (sum: string, from: number) =>
    `    subgroupMatrixStore<row_major>(&a_panels[panelRow], stagedAt + ${from}u, ${sum}_${i}_${j}, ${QUADS}u);`;
  return `  {
    workgroupBarrier();
${stage("high", 0)}
${stage("low", MATRIX)}
    workgroupBarrier();
    for (var quad = place; quad < ${MATRIX}u; quad += ${SUBGROUP}u) {
      let high = bitcast<vec4f>(a_panels[panelRow][stagedAt + quad]);
      let low = bitcast<vec4f>(a_panels[panelRow][stagedAt + ${MATRIX}u + quad]);
      ${storeSums(`row + ${SIDE * i}u + quad / ${QUADS}u`, `column + ${SIDE * j}u`, j)}
    }
  }`;
}

/** What products of parts differ in. */
export interface SplitText {
  /** Functions of results. */
  readonly declarations: string;
  /** Finds `rowBase` and `columnBase`, and the parts from `depthStart` to `k`; ends workgroups that have none. */
  readonly prologue: string;
  readonly a: LinePlaces;
  readonly b: LinePlaces;
  /** Statements about the quads of results from `column` on, which is a WGSL expression. */
  readonly prepareStore: (column: string, j: number) => string;
  /** Statement that stores the sums `high` and `low` of quad `j`. */
  readonly storeSums: (row: string, column: string, j: number) => string;
}

/** Before the body of such a program. */
export const splitDirectives = {
  enable: ["f16", "subgroups", "chromium_experimental_subgroup_matrix"],
  directives: ["diagnostic(off, chromium.subgroup_matrix_uniformity);"],
} as const;

/**
 * The body of a program that multiplies lines of f32 numbers that were split into f16 (see `pass.wgsl.ts`), on matrix
 * units. Of the four products of parts
 *
 *   high_a high_b + 2^-11 (high_a low_b + low_a high_b) + 2^-22 low_a low_b
 *
 * the last is left out, as it is at most 2^-22 |a b|; the middle ones have sums of their own, so that they
 * are added to the first at their own size. `depth` of the tile counts parts: two to an element.
 */
export function splitSource(tile: MatrixTile, text: SplitText): string {
  const sharing = tile.columns / tile.subgroupColumns;
  const staged = Math.floor((tile.subgroupRows * panelPitch(tile)) / sharing);
  if (staged < 2 * MATRIX) throw new RangeError(`${matrixTileName(tile)} has no room for results`);
  const a = panelsOf(tile, "a", text.a);
  const b = panelsOf(tile, "b", text.b);
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
  const loop = {
    advance: `${a.advance}${b.advance}`,
    ...{ load: `${a.load}\n${b.load}`, store: `${a.store}\n${b.store}`, steps },
  };
  return wgsl`
${text.declarations}
const ROWS = ${tile.rows}u;
const COLUMNS = ${tile.columns}u;

${a.declaration}
${b.declaration}
fn powers_of_two(exponents: vec4i) -> vec4f { return bitcast<vec4f>(vec4u(exponents + 127) << vec4u(23u)); }

/// The sums of parts, whose operands were scaled by powers of two that add up to exponents.
fn joined_sums(high: vec4f, low: vec4f, exponents: vec4i) -> vec4f {
  // Those of lines are from -114 to 113. In two steps, since the power of their sum is out of range.
  let half = exponents / 2;
  return (high + low * ${1 / 2 ** LOW_SHIFT}) * powers_of_two(half) * powers_of_two(exponents - half);
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
${text.prologue}
  let panelRow = subgroup / ${tile.columns / tile.subgroupColumns}u;
  let panelColumn = subgroup % ${tile.columns / tile.subgroupColumns}u;
  let place_in_panel = lane / ${tile.depth / UNIT}u * ${panelPitch(tile)}u + lane % ${tile.depth / UNIT}u;
${a.prepare}
${b.prepare}
${each((i, j) => `  var high_${i}_${j}: subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>;\n  var low_${i}_${j}: subgroup_matrix_result<f32, ${SIDE}, ${SIDE}>;`)}
${stagedLoop(tile, loop)}
  let row = rowBase + panelRow * ${tile.subgroupRows}u;
  let column = columnBase + panelColumn * ${tile.subgroupColumns}u + place % ${QUADS}u * 4u;
  let stagedAt = panelColumn * ${staged}u;
${lines(across, (j) => text.prepareStore(`column + ${SIDE * j}u`, j))}
${each((i, j) => storeMatrix(i, j, text.storeSums))}
}
`;
}

/**
 * C[i] = alpha * op(A[i]) * op(B[i]) + beta * C[i] for f32 operands that were split into f16, without the blocks of
 * `tile` that have wide lines.
 */
export const splitProgram: (tile: MatrixTile, form: ResultForm) => Program = memoized(
  (tile: MatrixTile, form: ResultForm): Program => {
    const result = resultText(form);
    const aligned = form.vectorC ? `_c4${form.overwritesC ? "" : "_c"}` : "";
    return program({
      name: `gemm_split_${matrixTileName(tile)}${aligned}${epilogueName(form)}`,
      ...splitDirectives,
      bindings: {
        // Rows and columns up to the end of the last tile may hold anything.
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
        // Exponents from one matrix to the next; the start of those of columns.
        ...{ row_step: "u32", column_step: "u32", column_exponents: "u32" },
      },
      uniform: true,
      body: splitSource(tile, {
        declarations: wgsl`
${workgroupIndex}
${result.functions}
${wideText(tile)}
const a_unit = ${UNIT}u;
const b_unit = ${UNIT}u;

/// Those of a quad of columns, the last one again past the end.
fn exponents_of_columns(matrix: u32, column: u32) -> vec4i {
  let first = parameters.exponents_offset + parameters.column_exponents + matrix * parameters.column_step;
  let last = parameters.n - 1u;
  return vec4i(
    exponents[first + min(column, last)], exponents[first + min(column + 1u, last)],
    exponents[first + min(column + 2u, last)], exponents[first + min(column + 3u, last)]);
}

fn store_sums(
  matrix: u32, result: u32, row: u32, column: u32, of_columns: vec4i, high: vec4f, low: vec4f
) {
  if (row >= parameters.m || column >= parameters.n) { return; }
  let of_row = exponents[parameters.exponents_offset + matrix * parameters.row_step + row];
  store_quad(result, row, column, joined_sums(high, low, of_columns + of_row));
}
`,
        prologue: `${tilePrologue}
  if (is_wide(matrix, rowBase, columnBase)) { return; }`,
        ...{ a: rowsOf(tile, "a"), b: rowsOf(tile, "b") },
        prepareStore: (column, j) => `  let exponents_${j} = exponents_of_columns(matrix, ${column});`,
        storeSums: (row, column, j) =>
          `store_sums(matrix, result, ${row}, ${column}, exponents_${j}, high, low);`,
      }),
    });
  },
);
