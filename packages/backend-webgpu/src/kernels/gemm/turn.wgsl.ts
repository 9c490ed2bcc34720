import {
  input,
  linearBuiltins,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { UNIT } from "../tiles/index.js";

/** Rows and columns of a block that one workgroup turns. */
export const TURN_SIDE = 64;

/**
 * Copies f16 matrices, whose rows start anywhere, with rows and columns exchanged: packed[column][row], each column in
 * whole units, which repeat the last row after its end. Workgroups: one for each block of each matrix.
 */
export const turnProgram: Program<
  "source" | "packed",
  "rows" | "columns" | "pitch" | "step" | "matrices" | "units"
> = program({
  name: "gemm_turn",
  bindings: { source: input("half"), packed: output("half8") },
  // pitch and step: elements from one row, and from one matrix, to the next; units of a packed column.
  parameters: {
    ...{ rows: "u32", columns: "u32", pitch: "u32", step: "u32", matrices: "u32", units: "u32" },
  },
  light: true,
  body: wgsl`
${workgroupIndex}
const SIDE = ${TURN_SIDE}u;

// Two neighbours of a row to a word, and a word more, so that columns lie in different banks.
var<workgroup> block: array<array<u32, ${TURN_SIDE / 2 + 1}>, SIDE>;

/// The halves of two rows in one column.
fn pair(column: u32, row: u32) -> u32 {
  let shift = (column & 1u) * 16u;
  return ((block[row][column / 2u] >> shift) & 0xffffu) | ((block[row + 1u][column / 2u] >> shift) << 16u);
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let across = (parameters.columns + SIDE - 1u) / SIDE;
  let blocks = across * ((parameters.rows + SIDE - 1u) / SIDE);
  let group = workgroup_index(workgroup, workgroups);
  if (group >= blocks * parameters.matrices) { return; }
  let matrix = group / blocks;
  let rowBase = group % blocks / across * SIDE;
  let columnBase = group % across * SIDE;

  let word = lane % ${TURN_SIDE / 2}u;
  // Counted, so that compilers write it out and no load waits for the one before: 27 us instead of some 50 for 4096^2.
  for (var i = 0u; i < ${(TURN_SIDE * TURN_SIDE) / 2 / WORKGROUP_SIZE}u; i++) {
    let row = lane / ${TURN_SIDE / 2}u + i * ${(2 * WORKGROUP_SIZE) / TURN_SIDE}u;
    let start = parameters.source_offset + matrix * parameters.step
      + min(rowBase + row, parameters.rows - 1u) * parameters.pitch;
    let last = (start + parameters.columns - 1u) >> 1u; // the word of the last element of the row
    let at = start + columnBase + 2u * word;
    let low = source[min(at >> 1u, last)];
    let high = source[min((at >> 1u) + 1u, last)];
    block[row][word] = select(low, (low >> 16u) | (high << 16u), (at & 1u) == 1u);
  }
  workgroupBarrier();
  let unit = lane % ${TURN_SIDE / UNIT}u;
  let place = rowBase / ${UNIT}u + unit;
  for (var i = 0u; i < ${(TURN_SIDE * TURN_SIDE) / UNIT / WORKGROUP_SIZE}u; i++) {
    let column = lane / ${TURN_SIDE / UNIT}u + i * ${(UNIT * WORKGROUP_SIZE) / TURN_SIDE}u;
    if (columnBase + column < parameters.columns && place < parameters.units) {
      let row = unit * ${UNIT}u;
      let at = (matrix * parameters.columns + columnBase + column) * parameters.units + place;
      packed[parameters.packed_offset + at] =
        vec4u(pair(column, row), pair(column, row + 2u), pair(column, row + 4u), pair(column, row + 6u));
    }
  }
}
`,
});
