import { type ParameterType, wgsl } from "../../program/index.js";
import { AXIS_ROWS } from "./units.wgsl.js";

/** The matrices that are transposed, and how many tiles lie down and across each of them. */
export const tileParameters: Readonly<Record<TileParameter, ParameterType>> = {
  ...({ start: "u32", rows: "u32", columns: "u32", column_step: "u32", row_step: "u32" } as const),
  ...({ down: "u32", across: "u32", matrices: "u32", rank: "u32", axes: { rows: AXIS_ROWS } } as const),
};

export type TileParameter =
  | ("start" | "rows" | "columns" | "column_step" | "row_step")
  | ("down" | "across" | "matrices" | "rank" | "axes");

/** Which tile a workgroup has: `first_row` and `first_column` in its matrix, and `first`, the start of that in either operand. */
export function findTile(side: number): string {
  return wgsl`
  let group = workgroup_index(workgroup, workgroups);
  let strip = group / parameters.down;
  let matrix = strip / parameters.across;
  if (matrix >= parameters.matrices) { return; }
  let first_row = (group - strip * parameters.down) * ${side}u;
  let first_column = (strip - matrix * parameters.across) * ${side}u;
  var first = vec2u(parameters.source_offset + parameters.start, parameters.output_offset);
  var rest = matrix;
  for (var axis = parameters.rank; axis > 0u; axis--) {
    let row = parameters.axes[axis - 1u];
    let next = rest / row.x;
    first += (rest - next * row.x) * row.yz;
    rest = next;
  }`;
}
