import type { FloatType } from "@backplane/core";
import { floatLayouts, lines, WORKGROUP_SIZE, wgsl } from "../../program/index.js";

/** What kernels of gradients write, one element or several at a time. */
export interface GradientTile {
  /** Of the results: sums of several passes are f32. */
  readonly result: FloatType;
  /** Neighbouring channels that an invocation does together. */
  readonly vector: 1 | 4;
  /** Whether sums of earlier parts are in the output. */
  readonly continues: boolean;
}

/** Their parameters: the rectangle of each image that they write, with `inner` loads for each pixel. */
export const gradientParameters = {
  planes: "u32",
  shift: "u32",
  rows: "u32",
  columns: "u32",
  inner: "u32",
  first_row: "i32",
  first_column: "i32",
} as const;

/**
 * The text of `main`, after `let group = workgroup_index(...)`, which writes
 * `sum_of(plane, row, column, channel, before)` for each element, or for four neighbouring channels. Rows and columns
 * count from the start of the rectangle; `before` is what is there already, or 0.
 */
export function gradientWriter(tile: GradientTile): string {
  return isShared(tile) ? sharedWord() : wholeResult(tile);
}

/** Whether two elements share a word, so that an invocation owns words. */
export function isShared({ result, vector }: Pick<GradientTile, "result" | "vector">): boolean {
  return floatLayouts[result].perWord === 2 && vector === 1;
}

/** Strips are columns, each with its channels. */
function wholeResult({ result, vector, continues }: GradientTile): string {
  const to = floatLayouts[result];
  const isQuad = vector === 4;
  const before = isQuad ? to.unpacked("block") : "block";
  return wgsl`
  let strips = parameters.columns * parameters.inner;
  let spot = spot_of(group, lane, parameters.shift, parameters.rows, strips);
  if (spot.plane >= parameters.planes || spot.row >= parameters.rows || spot.strip >= strips) { return; }
  let column = spot.strip / parameters.inner;
  let at = parameters.output_offset + (spot.plane * parameters.rows + spot.row) * strips + spot.strip;
  ${continues ? `let block = output[at];\n  let before = ${before};` : `let before = ${isQuad ? "vec4f" : "f32"}(0.0);`}
  let sum = sum_of(spot.plane, spot.row, column, spot.strip - column * parameters.inner, before);
  output[at] = ${isQuad ? to.packed("sum") : "sum"};`;
}

/** Two halves of a word, one of which may lie outside the output. */
function sharedWord(): string {
  return wgsl`
  let word = (parameters.output_offset >> 1u) + group * ${WORKGROUP_SIZE}u + lane;
  let n = parameters.planes * parameters.rows * parameters.columns * parameters.inner;
  if (2u * word >= parameters.output_offset + n) { return; }
  var result = output[word];
${lines(
  2,
  (half) => wgsl`
  // Wraps round to a large number in front of the region.
  let unit_${half} = 2u * word + ${half}u - parameters.output_offset;
  if (unit_${half} < n) {
    let pixel = unit_${half} / parameters.inner;
    let row = pixel / parameters.columns;
    let plane = row / parameters.rows;
    let channel = unit_${half} - pixel * parameters.inner;
    let sum = sum_of(plane, row - plane * parameters.rows, pixel - row * parameters.columns, channel, 0.0);
    result = with_half(result, ${half}u, sum);
  }`,
)}
  output[word] = result;`;
}
