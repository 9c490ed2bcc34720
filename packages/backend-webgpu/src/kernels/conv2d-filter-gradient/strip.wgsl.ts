import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  linearBuiltins,
  lines,
  memoized,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { stripWindow } from "../conv2d/index.js";
import { operandText } from "../tiles/index.js";
import { gradientParameters, storeSum } from "./parameters.js";

/**
 * For groups of one input channel ("depthwise") and a filter of `side` x `side` with the same `stride` both ways:
 * invocations take four neighbouring pixels of `rows` rows of the output at a time.
 */
export interface StripTile {
  readonly side: number;
  readonly stride: number;
  readonly rows: number;
  readonly lanes: number;
}

export interface StripForm {
  readonly dtype: FloatType;
  /** As `StripForm` of conv2d. */
  readonly vectorLeft: number | undefined;
  /** Rows of the output's gradient are whole quads, and aligned. */
  readonly vectorGradient: boolean;
}

/** Such as `3x3s1_4x4`. */
export function stripName({ side, stride, rows }: StripTile): string {
  return `${side}x${side}s${stride}_${rows}x4`;
}

/** Workgroup memory, in bytes: a sum of each invocation for each place of the filter. */
export function stripBytes({ side, lanes }: StripTile): number {
  return 4 * side * side * lanes;
}

/** Each invocation sums its pixels for all places of the filter in registers; the workgroup adds up these sums in their order. */
export const stripProgram: (tile: StripTile, form: StripForm) => Program = memoized(
  (tile: StripTile, form: StripForm): Program => {
    const { side, stride, rows, lanes } = tile;
    const { dtype, vectorLeft, vectorGradient } = form;
    const source = operandText("input", dtype, vectorLeft !== undefined);
    const gradient = operandText("gradient", dtype, vectorGradient);
    const window = stripWindow(tile, vectorLeft);
    const sums = (line: (i: number, j: number) => string) =>
      lines(side, (i) => lines(side, (j) => line(i, j)));
    const gradientOf = (row: number) =>
      vectorGradient
        ? `    let in_rows_${row} = first_y + ${row}u < parameters.out_height;
    let gradient_${row} = select(vec4f(), gradient_load4(select(0u, gradient_at + ${row}u * parameters.out_width, in_rows_${row})), in_rows_${row});`
        : `    let in_rows_${row} = first_y + ${row}u < parameters.out_height;
    let gradient_${row} = gradient_some(gradient_at + ${row}u * parameters.out_width, select(0u, count, in_rows_${row}));`;
    // Input elements that no window of the output meets may be infinite, and are not multiplied by zero.
    const met = (values: string) => (vectorGradient ? values : `select(vec4f(), ${values}, live)`);
    const products = (at: number) =>
      lines(rows, (row) => {
        const down = at - row * stride;
        if (down < 0 || down >= side) return "";
        const added = lines(side, (across) => {
          const values = [0, 1, 2, 3].map((i) => window.value(i * stride + across));
          return `        sum_${down}_${across} += dot(gradient_${row}, ${met(`vec4f(${values.join(", ")})`)});`;
        });
        return `      if (in_rows_${row}) {\n${added}\n      }`;
      });
    return program({
      name: `conv2d_filter_gradient_strip_${stripName(tile)}_${dtype}${vectorLeft === undefined ? "" : `_i4_left${vectorLeft}`}${vectorGradient ? "_g4" : ""}`,
      bindings: {
        gradient: gradient.storage, // batch x groups * group_outputs x out_height x out_width
        input: source.storage, // batch x in_channels x height x width
        output: output("f32"), // parts x groups * group_outputs x 1 x kernel_height x kernel_width
      },
      parameters: gradientParameters,
      body: wgsl`
${workgroupIndex}
${floatLayouts[dtype].functions}
${source.functions}
${gradient.functions}
${storeSum}
const LANES = ${lanes}u;
const ROWS = ${rows}u;
const PLACES = ${side * side}u;
var<workgroup> shares: array<f32, PLACES * LANES>;
${vectorGradient ? "" : someOf}
// One workgroup computes the sums of one output channel over \`part\` strips of four columns of ROWS rows.
@compute @workgroup_size(LANES)
fn main(${linearBuiltins}) {
  let channels = parameters.groups * parameters.group_outputs;
  let plane = parameters.out_height * parameters.out_width;
  let across = (parameters.out_width + 3u) / 4u;
  let down = (parameters.out_height + ROWS - 1u) / ROWS;
  let strips = parameters.pixels / plane * down * across;
  let number = workgroup_index(workgroup, workgroups);
  let channel = number % channels;
  let part = number / channels;
  let first = part * parameters.part;
  if (first >= strips) { return; }
  let end = min(strips, first + parameters.part);
${sums((i, j) => `  var sum_${i}_${j} = 0.0;`)}
  for (var strip = first + lane; strip < end; strip += LANES) {
    let first_x = strip % across * 4u;
    let first_y = strip / across % down * ROWS;
    let image = strip / across / down;
    let gradient_at = parameters.gradient_offset * gradient_unit + (image * channels + channel) * plane + first_y * parameters.out_width + first_x;
    let input_plane = image * parameters.in_channels + channel / parameters.group_outputs;
    let input_base = parameters.input_offset * input_unit + input_plane * parameters.height * parameters.width;
    let first_row = first_y * ${stride}u - parameters.top;
${window.prepare}
${vectorGradient ? "" : liveColumns}
${lines(rows, gradientOf)}
${lines(
  (rows - 1) * stride + side,
  (at) => wgsl`    {
      let row = first_row + ${at}u; // wraps round below zero
      let inside = row < parameters.height;
      let row_base = input_base + row * parameters.width;
${window.load}
${products(at)}
    }`,
)}
  }
${sums((i, j) => `  shares[${i * side + j}u * LANES + lane] = sum_${i}_${j};`)}
  workgroupBarrier();
  for (var place = lane; place < PLACES; place += LANES) {
    var sum = 0.0;
    for (var i = 0u; i < LANES; i++) { sum += shares[place * LANES + i]; }
    store_sum(parameters.output_offset + (part * channels + channel) * PLACES + place, sum);
  }
}
`,
    });
  },
);

/** Which columns of a strip the output has. */
const liveColumns: string = wgsl`    let count = parameters.out_width - first_x;
    let live = vec4u(0u, 1u, 2u, 3u) < vec4u(count);`;

const someOf: string = wgsl`
/// The first elements of four, zeros after them.
fn gradient_some(at: u32, count: u32) -> vec4f {
  var values = vec4f();
  if (count > 0u) { values.x = gradient_load1(at); }
  if (count > 1u) { values.y = gradient_load1(at + 1u); }
  if (count > 2u) { values.z = gradient_load1(at + 2u); }
  if (count > 3u) { values.w = gradient_load1(at + 3u); }
  return values;
}
`;
