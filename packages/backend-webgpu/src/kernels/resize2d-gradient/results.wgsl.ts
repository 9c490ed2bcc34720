import type { Resize2dKind } from "@backplane/core";
import { wgsl } from "../../program/index.js";
import { dividedFunction } from "../resize2d/index.js";

/**
 * The parameters beside those of the axes, whose extents are those of whole images: `step` is 1 / factor. The source has
 * `result_rows` rows from `result_row` on, and likewise columns.
 */
export const resultsParameters = {
  step_y: "f32",
  step_x: "f32",
  result_row: "i32",
  result_column: "i32",
  result_rows: "i32",
  result_columns: "i32",
} as const;

/**
 * The inverse of `placeFunctions`: place o of the results is at n = o * factor + shift, over the divisor, and is made of element
 * i if n is between (i - 1) * divisor and (i + 1) * divisor, or, of the nearest ones, not before i * divisor. What lies before the
 * first element belongs to it, and what lies behind the last one to that.
 */
export function resultsFunctions(kind: Resize2dKind, byProduct: boolean): string {
  const isNearest = kind === "nearest";
  return wgsl`
${dividedFunction(byProduct)}

/// How many places there are up to n, which are \`factor\` apart from 0 on.
fn places_to(n: i32, factor: i32, step: f32) -> i32 {
  if (n < 0) { return 0; }
  return divided(n, factor, step).x + 1;
}

/// The first result, and the one behind the last, of those that are here.
fn results_of(i: i32, factor: i32, shift: i32, divisor: i32, step: f32, last: i32, here: i32, count: i32) -> vec2i {
  var first = here;
  if (i > 0) { first = max(here, places_to(${isNearest ? "i * divisor - shift - 1" : "(i - 1) * divisor - shift"}, factor, step)); }
  var end = here + count;
  if (i < last) { end = min(end, places_to((i + 1) * divisor - shift - 1, factor, step)); }
  return vec2i(first, end);
}

fn rows_of(y: i32) -> vec2i {
  return results_of(
    y, parameters.factor_y, parameters.shift_y, parameters.divisor_y, parameters.step_y, parameters.last_y,
    parameters.result_row, parameters.result_rows);
}

fn columns_of(x: i32) -> vec2i {
  return results_of(
    x, parameters.factor_x, parameters.shift_x, parameters.divisor_x, parameters.step_x, parameters.last_x,
    parameters.result_column, parameters.result_columns);
}
${isNearest ? "" : factorFunctions}`;
}

/** With the weights of the result: the rest of the place, times `unit`. */
const factorFunctions = wgsl`
/// The factor of element i in the result at n.
fn factor_of(n: i32, i: i32, divisor: i32, unit: f32, last: i32) -> f32 {
  let beyond = clamp(n, 0, last * divisor) - i * divisor;
  if (beyond < 0) { return f32(beyond + divisor) * unit; }
  return 1.0 - f32(beyond) * unit;
}

fn row_factor(v: i32, y: i32) -> f32 {
  return factor_of(
    v * parameters.factor_y + parameters.shift_y, y, parameters.divisor_y, parameters.unit_y, parameters.last_y);
}

fn column_factor(u: i32, x: i32) -> f32 {
  return factor_of(
    u * parameters.factor_x + parameters.shift_x, x, parameters.divisor_x, parameters.unit_x, parameters.last_x);
}
`;
