import { input, lines, memoized, type Program, program, wgsl } from "../../../program/index.js";
import { type MatrixTile, matrixTileName, wideBinding, wideParameters, wideText } from "../../gemm/index.js";
import { type LinePlaces, rowsOf, splitDirectives, splitSource, UNIT } from "../../gemm/split/index.js";
import { tileInBands } from "../../tiles/index.js";
import { type ConvResult, resultName, resultText } from "../results.wgsl.js";

/**
 * Lines of windows: those of a pixel are a stretch of channels for each tap, which is a whole number of steps. The place
 * of the tap is the same for all invocations, and steps along with the loop.
 */
function windowsOf(tile: MatrixTile): LinePlaces {
  const perLine = tile.depth / UNIT;
  return {
    prepare: (rounds, linesAtOnce) => `  let tap_steps = parameters.pixel_units / ${perLine}u;
  let next_column = (parameters.dilation_x - 1u) * parameters.pixel_units;
  let next_row = (parameters.dilation_y * parameters.copy_width - parameters.kernel_width * parameters.dilation_x) * parameters.pixel_units;
  var steps_left = tap_steps;
  var columns_left = parameters.kernel_width;
  var window_unit = 0u;
${lines(rounds, (i) => `  let window_${i} = window_start(columnBase + lane / ${perLine}u + ${i * linesAtOnce}u) + lane % ${perLine}u;`)}`,
    unit: (round) => `window_${round} + window_unit`,
    advance: `
      window_unit += ${perLine}u;
      steps_left -= 1u;
      if (steps_left == 0u) {
        steps_left = tap_steps;
        window_unit += next_column;
        columns_left -= 1u;
        if (columns_left == 0u) {
          columns_left = parameters.kernel_width;
          window_unit += next_row; // may wrap round below zero
        }
      }`,
  };
}

/**
 * Filters times windows of a copy of the images with their padding (see `copy.wgsl.ts`), both split into f16, on matrix
 * units: output channels x pixels of all images, without the blocks of `tile` that have wide filters or images.
 */
export const windowsProgram: (tile: MatrixTile, form: ConvResult) => Program = memoized(
  (tile: MatrixTile, form: ConvResult): Program => {
    const result = resultText(form);
    return program({
      name: `conv2d_split_${matrixTileName(tile)}${resultName(form)}`,
      ...splitDirectives,
      bindings: {
        a: input("half8"), // group_outputs x a_pitch, and anything up to the end of the last tile
        b: input("half8"), // batch x copy_height x copy_width x 8 pixel_units
        exponents: input("i32"), // those of filters; those of images
        ...wideBinding,
        ...result.bindings,
      },
      parameters: {
        ...{ groups: "u32", group_outputs: "u32", pixels: "u32", out_height: "u32", out_width: "u32" },
        ...{ stride_y: "u32", stride_x: "u32", dilation_y: "u32", dilation_x: "u32", kernel_width: "u32" },
        ...{ copy_height: "u32", copy_width: "u32" },
        /** Units of a pixel of the copy, and parts of a filter. */
        ...{ pixel_units: "u32", a_pitch: "u32" },
        ...wideParameters,
      },
      uniform: true,
      body: splitSource(tile, {
        declarations: wgsl`
${result.declarations}
${wideText(tile)}
/// The first unit under the window of a pixel.
fn window_start(pixel: u32) -> u32 {
  let place = min(pixel, parameters.pixels - 1u);
  let row = place / parameters.out_width;
  let y = row % parameters.out_height * parameters.stride_y;
  let x = place % parameters.out_width * parameters.stride_x;
  return parameters.b_offset
    + ((row / parameters.out_height * parameters.copy_height + y) * parameters.copy_width + x) * parameters.pixel_units;
}

/// Of the image of a pixel.
fn exponent_at(pixel: u32) -> i32 {
  let image = min(pixel, parameters.pixels - 1u) / (parameters.out_height * parameters.out_width);
  return exponents[parameters.exponents_offset + parameters.group_outputs + image];
}

${form.vectorOutput ? storeFour : storeSome}
`,
        prologue: wgsl`
  let tiles_across = (parameters.pixels + COLUMNS - 1u) / COLUMNS;
  let tiles = tiles_across * ((parameters.group_outputs + ROWS - 1u) / ROWS);
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles) { return; }
${tileInBands}
  if (is_wide(0u, rowBase, columnBase)) { return; }
  let depthStart = 0u;
  let k = parameters.a_pitch;
  let a_base = parameters.a_offset * ${UNIT}u;`,
        ...{ a: rowsOf(tile, "a"), b: windowsOf(tile) },
        prepareStore: (column, j) => {
          const pixels = [0, 1, 2, 3].map((i) => `${column} + ${i}u`);
          return form.vectorOutput
            ? `  let exponents_${j} = vec4i(exponent_at(${column}));
  let place_${j} = output_place(${column});`
            : `  let exponents_${j} = vec4i(${pixels.map((pixel) => `exponent_at(${pixel})`).join(", ")});
  let place_${j} = vec4u(${pixels.map((pixel) => `output_place(${pixel})`).join(", ")});`;
        },
        storeSums: (row, column, j) =>
          `store_sums(${row}, ${column}, place_${j}, exponents_${j}, high, low);`,
      }),
    });
  },
);

/** The sums of a quad, of one filter. */
const sums = wgsl`
  if (channel >= parameters.group_outputs || pixel >= parameters.pixels) { return; }
  let sums = joined_sums(high, low, of_images + exponents[parameters.exponents_offset + channel]);`;

const storeFour = wgsl`
fn store_sums(channel: u32, pixel: u32, place: u32, of_images: vec4i, high: vec4f, low: vec4f) {${sums}
  store_four(channel, place, sums);
}`;

const storeSome = wgsl`
fn store_sums(channel: u32, pixel: u32, places: vec4u, of_images: vec4i, high: vec4f, low: vec4f) {${sums}
  store_some(channel, places, parameters.pixels - pixel, sums);
}`;
