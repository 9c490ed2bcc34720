import { linearBuiltins, lines, memoized, type Program, program, wgsl } from "../../program/index.js";
import { epilogueName } from "../epilogue.wgsl.js";
import { operandText } from "../tiles/index.js";
import {
  type ChannelsForm,
  meetingsOf,
  quadEnds,
  quadParameters,
  quadResults,
  stripOfQuad,
  windowName,
} from "./channels.wgsl.js";

/**
 * For images of few channels, which are last, and filters that see all of them: a workgroup of `lanes` invocations, each with
 * four neighbouring output channels of `columns` neighbouring pixels of a row.
 */
export interface DenseTile {
  readonly columns: number;
  readonly lanes: number;
}

export interface DenseForm extends ChannelsForm {
  /** Channels of the images. */
  readonly inputs: number;
}

/** Bias and output begin at whole quads, and output channels are quads. */
export const denseProgram: (tile: DenseTile, form: DenseForm) => Program = memoized(
  (tile: DenseTile, form: DenseForm): Program => {
    const { dtype, down, across, inputs } = form;
    const source = operandText("input", dtype, false);
    const filter = operandText("filter_", dtype, false);
    const perColumn = (line: (column: number) => string) => lines(tile.columns, line);
    return program({
      name: `conv2d_dense_${tile.columns}_${windowName(form)}_${inputs}_${dtype}${epilogueName(form)}`,
      bindings: {
        input: source.storage, // images x height x width x inputs
        filter_: filter.storage, // channels x inputs x kernel height x kernel width
        ...quadEnds(form),
      },
      parameters: quadParameters,
      body: wgsl`${quadResults(form)}
${source.functions}
${filter.functions}
const LANES = ${tile.lanes}u;
const COLUMNS = ${tile.columns}u;
const INPUTS = ${inputs}u;
const TAPS = ${inputs * down.taps * across.taps}u;

/// The first channel of a pixel, or of any one outside the image.
fn place_of(row: u32, column: u32, inside: bool) -> u32 {
  return parameters.input_offset + select(0u, (row + column) * INPUTS, inside);
}

/// Zeros outside the image.
fn load(place: u32, inside: bool) -> f32 {
  return select(0.0, input_load1(place), inside);
}

/// One weight of each of four filters.
fn weights(at: u32) -> vec4f {
  return vec4f(filter__load1(at), filter__load1(at + TAPS), filter__load1(at + 2u * TAPS), filter__load1(at + 3u * TAPS));
}

// Neighbouring invocations have neighbouring channels. \`quads\` counts those of a pixel.
@compute @workgroup_size(LANES)
fn main(${linearBuiltins}) {
${stripOfQuad}
  let line = strip / strips;
  let first_x = (strip - line * strips) * COLUMNS;
  let image = line / parameters.out_height;
  if (image >= parameters.images) { return; }
  let filter_base = parameters.filter__offset + quad * 4u * TAPS;
  // These wrap round below zero.
  let first_row = (line - image * parameters.out_height) * ${down.stride}u - parameters.top;
  let first_column = first_x * ${across.stride}u - parameters.left;
${perColumn((column) => `  var sum_${column} = vec4f();`)}
${productsText(tile, form)}
  let bias_quad = bias_of(quad);
  let pixel = line * parameters.out_width + first_x;
${perColumn(
  (column) =>
    `  if (first_x + ${column}u < parameters.out_width) { store(pixel + ${column}u, quad, sum_${column} + bias_quad); }`,
)}
}
`,
    });
  },
);

/** Each element of the images is loaded once for all windows of the tile. */
function productsText({ columns }: DenseTile, { down, across, inputs }: DenseForm): string {
  const text: string[] = [];
  const channels = Array.from({ length: inputs }, (_, channel) => channel);
  for (let row = 0; row < down.taps; row++) {
    text.push(wgsl`  {
    let row = first_row + ${row * down.dilation}u;
    let row_inside = row < parameters.height;
    let base = (image * parameters.height + row) * parameters.width;`);
    for (let column = 0; column < across.taps; column++)
      for (const channel of channels) {
        const tap = (channel * down.taps + row) * across.taps + column;
        text.push(`    let weight_${column}_${channel} = weights(filter_base + ${tap}u);`);
      }
    for (const [column, places] of meetingsOf(across, columns)) {
      text.push(wgsl`    let inside_${column} = row_inside && first_column + ${column}u < parameters.width;
    let place_${column} = place_of(base, first_column + ${column}u, inside_${column});`);
      for (const channel of channels) {
        text.push(
          `    let value_${column}_${channel} = load(place_${column} + ${channel}u, inside_${column});`,
        );
        for (const { result, tap } of places)
          text.push(`    sum_${result} += weight_${tap}_${channel} * value_${column}_${channel};`);
      }
    }
    text.push("  }");
  }
  return text.join("\n");
}
