import { linearBuiltins, lines, memoized, type Program, program, wgsl } from "../../program/index.js";
import { operandText } from "../tiles/index.js";
import { patchParameters } from "./patches.wgsl.js";
import { type ConvResult, resultName, resultText } from "./results.wgsl.js";

/**
 * For groups of one input channel ("depthwise") and a filter of `side` x `side` with the same `stride`
 * both ways: a workgroup of `lanes` invocations, each with four neighbouring pixels of `rows` rows.
 */
export interface StripTile {
  readonly side: number;
  readonly stride: number;
  readonly rows: number;
  readonly lanes: number;
}

/** Such as `3x3s1_4x4`: filter, stride, results of one invocation. */
export function stripName({ side, stride, rows }: StripTile): string {
  return `${side}x${side}s${stride}_${rows}x4`;
}

export interface StripForm extends ConvResult {
  /**
   * The zeros on the left, if quads of the input can be loaded: rows of the input, and images, are then
   * multiples of four and aligned to four elements.
   */
  readonly vectorLeft: number | undefined;
}

/** Keeps a window of the input in registers, so that each element is loaded once for all its pixels. */
export const stripProgram: (tile: StripTile, form: StripForm) => Program = memoized(
  (tile: StripTile, form: StripForm): Program => {
    const { side, stride, rows } = tile;
    const vector = form.vectorLeft !== undefined;
    const source = operandText("input", form.dtype, vector);
    const filter = operandText("filter_", form.dtype, false);
    const result = resultText(form);
    const window = stripWindow(tile, form.vectorLeft);
    const inputRows = (rows - 1) * stride + side;
    const perRow = (line: (row: number) => string) => lines(rows, line);
    const products = (at: number) =>
      perRow((row) => {
        const down = at - row * stride;
        if (down < 0 || down >= side) return "";
        return lines(side, (across) => {
          const values = [0, 1, 2, 3].map((i) => window.value(i * stride + across));
          return `    sum_${row} += weight_${down}_${across} * vec4f(${values.join(", ")});`;
        });
      });
    return program({
      name: `conv2d_strip_${stripName(tile)}_${form.dtype}${vector ? `_i4_left${form.vectorLeft}` : ""}${resultName(form)}`,
      bindings: {
        input: source.storage, // batch x in_channels x height x width
        filter_: filter.storage, // groups * group_outputs x 1 x kernel_height x kernel_width
        ...result.bindings,
      },
      parameters: patchParameters,
      body: wgsl`${result.declarations}
${source.functions}
${filter.functions}
const LANES = ${tile.lanes}u;
const ROWS = ${rows}u;

fn store_quad(channel: u32, pixel: u32, count: u32, sums: vec4f) {
  ${form.vectorOutput ? "store_four(channel, output_place(pixel), sums);" : "store_some(channel, output_place(pixel) + vec4u(0u, 1u, 2u, 3u), count, sums);"}
}

// One invocation computes four neighbouring pixels of ROWS rows of one output channel.
@compute @workgroup_size(LANES)
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * LANES + lane;
  let across = (parameters.out_width + 3u) / 4u;
  let down = (parameters.out_height + ROWS - 1u) / ROWS;
  let first_x = index % across * 4u;
  let first_y = index / across % down * ROWS;
  let matrix = index / across / down; // image * channels + channel
  let channels = parameters.groups * parameters.group_outputs;
  let channel = matrix % channels;
  let image = matrix / channels;
  if (image * parameters.out_height * parameters.out_width >= parameters.pixels) { return; }
  let plane = image * parameters.in_channels + channel / parameters.group_outputs;
  let input_base = parameters.input_offset * input_unit + plane * parameters.height * parameters.width;
  let filter_base = parameters.filter__offset + channel * ${side * side}u;
${lines(side, (i) => lines(side, (j) => `  let weight_${i}_${j} = filter__load1(filter_base + ${i * side + j}u);`))}
  let first_row = first_y * ${stride}u - parameters.top;
${window.prepare}
${perRow((row) => `  var sum_${row} = vec4f();`)}
${lines(
  inputRows,
  (at) => wgsl`  {
    let row = first_row + ${at}u; // wraps round below zero
    let inside = row < parameters.height;
    let row_base = input_base + row * parameters.width;
${window.load}
${products(at)}
  }`,
)}
  let place = (image * parameters.out_height + first_y) * parameters.out_width + first_x;
  let count = parameters.out_width - first_x;
${perRow(
  (row) => `  if (first_y + ${row}u < parameters.out_height) {
    store_quad(channel, place + ${row}u * parameters.out_width, count, sum_${row});
  }`,
)}
}
`,
    });
  },
);

/**
 * The part of a row of the input under four neighbouring pixels from column `first_x` on. Its texts use `row_base`, the index
 * of the row's first element, and whether it is `inside` of the input.
 */
export interface StripWindow {
  readonly prepare: string;
  /** Loads it, zeros outside the input. */
  readonly load: string;
  /** WGSL expression: the element under the first tap of the first pixel, or so much further on. */
  readonly value: (x: number) => string;
}

type WindowTile = Pick<StripTile, "side" | "stride">;

/** `vectorLeft`: see `StripForm`. */
export function stripWindow(tile: WindowTile, vectorLeft: number | undefined): StripWindow {
  return vectorLeft === undefined ? singles(tile) : quads(tile, vectorLeft);
}

function singles({ side, stride }: WindowTile): StripWindow {
  const load = (x: number) => wgsl`    let x_${x} = first_column + ${x}u;
    let inside_${x} = inside && x_${x} < parameters.width;
    let value_${x} = select(0.0, input_load1(select(0u, row_base + x_${x}, inside_${x})), inside_${x});`;
  return {
    prepare: `  let first_column = first_x * ${stride}u - parameters.left;`,
    load: lines(3 * stride + side, load),
    value: (x) => `value_${x}`,
  };
}

function quads({ side, stride }: WindowTile, left: number): StripWindow {
  const quadOf = (x: number) => Math.floor((x - left) / 4);
  const first = quadOf(0);
  const load = (i: number) => wgsl`    let x_${i} = first_column + ${4 * i}u;
    let inside_${i} = inside && x_${i} < parameters.width;
    let quad_${i} = select(vec4f(), input_load4(select(0u, row_base + x_${i}, inside_${i})), inside_${i});`;
  return {
    prepare: `  let first_column = first_x * ${stride}u - ${-4 * first}u;`,
    load: lines(quadOf(3 * stride + side - 1) - first + 1, load),
    value: (x) => `quad_${quadOf(x) - first}.${"xyzw"[(x - left) & 3]}`,
  };
}
