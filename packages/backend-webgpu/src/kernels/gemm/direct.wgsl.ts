import {
  floatLayouts,
  linearBuiltins,
  lines,
  memoized,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { epilogueName } from "../epilogue.wgsl.js";
import { operandText } from "../tiles/index.js";
import { type ResultForm, resultParameters, resultText } from "./results.wgsl.js";

/**
 * A product without workgroup memory. Each of the `lanes` invocations of a workgroup computes `threadRows`
 * rows of `threadColumns` columns that are `lanes` apart, so that neighbouring invocations read neighbouring
 * columns and the same rows, which suits the SIMD units of a CPU best.
 */
export interface DirectTile {
  readonly threadRows: number;
  readonly threadColumns: number;
  readonly lanes: number;
}

/** Such as `8x64`: rows and columns of one workgroup. */
export function directName({ threadRows, threadColumns, lanes }: DirectTile): string {
  return `${threadRows}x${threadColumns * lanes}`;
}

/** One text for all transposes: the strides of both operands are parameters. */
export const directProgram: (tile: DirectTile, form: ResultForm) => Program = memoized(
  (tile: DirectTile, form: ResultForm): Program => {
    const { dtype } = form;
    const a = operandText("a", dtype, false); // op(A), m x k, in any order
    const b = operandText("b", dtype, false); // op(B), k x n, in any order
    const result = resultText(form);
    const perRow = (line: (row: number) => string) => lines(tile.threadRows, line);
    const perColumn = (line: (column: number) => string) => lines(tile.threadColumns, line);
    return program({
      name: `gemm_direct_${directName(tile)}_${dtype}${form.target === "scratch" ? "_scratch" : ""}${form.readsC ? "_c" : ""}${epilogueName(form)}`,
      bindings: { a: a.storage, b: b.storage, ...result.bindings },
      parameters: {
        ...resultParameters,
        a_row: "u32",
        a_depth: "u32",
        a_step: "u32",
        b_depth: "u32",
        b_column: "u32",
        b_step: "u32",
        k: "u32",
        batch: "u32",
      },
      body: wgsl`
${workgroupIndex}
${floatLayouts[dtype].functions}
${a.functions}
${b.functions}
${result.functions}
const ROWS = ${tile.threadRows}u;
const LANES = ${tile.lanes}u;
const THREAD_COLUMNS = ${tile.threadColumns}u;
const COLUMNS = THREAD_COLUMNS * LANES;

// One invocation computes ROWS rows of every LANES-th of COLUMNS columns.
@compute @workgroup_size(LANES)
fn main(${linearBuiltins}) {
  let across = (parameters.n + COLUMNS - 1u) / COLUMNS;
  let tiles = across * ((parameters.m + ROWS - 1u) / ROWS);
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * parameters.batch) { return; }
  let matrix = group / tiles;
  let row = group % tiles / across * ROWS;
  let column = group % across * COLUMNS + lane;
  let a_base = parameters.a_offset + matrix * parameters.a_step;
  let b_base = parameters.b_offset + matrix * parameters.b_step;
${perRow((i) => `  var a_${i} = a_base + min(row + ${i}u, parameters.m - 1u) * parameters.a_row;`)}
${perColumn((j) => `  var b_${j} = b_base + min(column + ${j * tile.lanes}u, parameters.n - 1u) * parameters.b_column;`)}
${perRow((i) => perColumn((j) => `  var sum_${i}_${j} = 0.0;`))}
  for (var depth = 0u; depth < parameters.k; depth++) {
${perColumn((j) => `    let right_${j} = b_load1(b_${j});`)}
${perRow(
  (i) => `    let left_${i} = a_load1(a_${i});
${perColumn((j) => `    sum_${i}_${j} += left_${i} * right_${j};`)}`,
)}
${perRow((i) => `    a_${i} += parameters.a_depth;`)}
${perColumn((j) => `    b_${j} += parameters.b_depth;`)}
  }
  // An array and loops only here: written out, the stores would take most of the time to compile.
  var sums = array<f32, ROWS * THREAD_COLUMNS>(
${perRow((i) => perColumn((j) => `    sum_${i}_${j},`))}
  );
  for (var i = 0u; i < min(ROWS, parameters.m - row); i++) {
    for (var j = 0u; j < THREAD_COLUMNS; j++) {
      let at = column + j * LANES;
      if (at < parameters.n) { store(matrix, row + i, at, sums[i * THREAD_COLUMNS + j]); }
    }
  }
}
`,
    });
  },
);
