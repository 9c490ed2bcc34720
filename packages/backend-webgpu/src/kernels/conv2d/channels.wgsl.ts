import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  memoized,
  output,
  type Program,
  program,
  type Storage,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { activated, activationText, type Epilogue, epilogueName } from "../epilogue.wgsl.js";

/**
 * For images with channels last and one filter for each channel ("depthwise"): a workgroup of `lanes` invocations, each with
 * four neighbouring channels of `COLUMNS` neighbouring pixels in `rows` rows.
 */
export interface ChannelsTile {
  readonly rows: number;
  readonly lanes: number;
}

/** Neighbouring pixels of one invocation. */
export const COLUMNS = 4;

/** Such as `4x4`: rows and columns of one invocation. */
export function channelsName({ rows }: ChannelsTile): string {
  return `${rows}x${COLUMNS}`;
}

/** The taps of a filter along one axis of the images, and the step from window to window. */
export interface ChannelsAxis {
  readonly taps: number;
  readonly stride: number;
  readonly dilation: number;
}

export interface ChannelsForm extends Epilogue {
  readonly dtype: FloatType;
  readonly down: ChannelsAxis;
  readonly across: ChannelsAxis;
}

/** All operands begin at whole quads, and channels are quads. */
export const channelsProgram: (tile: ChannelsTile, form: ChannelsForm) => Program = memoized(
  (tile: ChannelsTile, form: ChannelsForm): Program => {
    const { dtype, down, across } = form;
    const { quad, unpacked } = floatLayouts[dtype];
    const perRow = (line: (row: number) => string) => lines(tile.rows, line);
    return program({
      name: `conv2d_channels_${channelsName(tile)}_${windowName(form)}_${dtype}${epilogueName(form)}`,
      bindings: {
        input: input(quad), // images x height x width x channels
        filter_: input(quad), // channels x 1 x kernel height x kernel width
        ...quadEnds(form),
      },
      parameters: quadParameters,
      body: wgsl`${quadResults(form)}
const LANES = ${tile.lanes}u;
const ROWS = ${tile.rows}u;
const COLUMNS = ${COLUMNS}u;

/// Zeros outside the image; \`row\` is the index of the row's first pixel.
fn load(row: u32, column: u32, quad: u32, row_inside: bool) -> vec4f {
  let inside = row_inside && column < parameters.width;
  let block = input[parameters.input_offset + select(0u, (row + column) * parameters.quads + quad, inside)];
  return select(vec4f(), ${unpacked("block")}, inside);
}

fn filter_quad(at: u32) -> vec4f {
  let block = filter_[at];
  return ${unpacked("block")};
}

// Neighbouring invocations have neighbouring channels. \`quads\` counts those of a pixel.
@compute @workgroup_size(LANES)
fn main(${linearBuiltins}) {
${stripOfQuad}
  let row_blocks = (parameters.out_height + ROWS - 1u) / ROWS;
  let block = strip / strips;
  let first_x = (strip - block * strips) * COLUMNS;
  let image = block / row_blocks;
  let first_y = (block - image * row_blocks) * ROWS;
  if (image >= parameters.images) { return; }
  let filter_base = parameters.filter__offset + quad * ${down.taps * across.taps}u;
  // These wrap round below zero.
  let first_row = first_y * ${down.stride}u - parameters.top;
  let first_column = first_x * ${across.stride}u - parameters.left;
${perRow((row) => lines(COLUMNS, (column) => `  var sum_${row}_${column} = vec4f();`))}
${productsText(tile, form)}
  let bias_quad = bias_of(quad);
  let pixel = (image * parameters.out_height + first_y) * parameters.out_width + first_x;
${perRow(
  (row) => wgsl`  if (first_y + ${row}u < parameters.out_height) {
    let place = pixel + ${row}u * parameters.out_width;
${lines(
  COLUMNS,
  (column) =>
    `    if (first_x + ${column}u < parameters.out_width) { store(place + ${column}u, quad, sum_${row}_${column} + bias_quad); }`,
)}
  }`,
)}
}
`,
    });
  },
);

/** Such as `3s1d1x3s2d1`: down and across. */
export function windowName({ down, across }: ChannelsForm): string {
  const axisName = ({ taps, stride, dilation }: ChannelsAxis) => `${taps}s${stride}d${dilation}`;
  return `${axisName(down)}x${axisName(across)}`;
}

/** The bindings of what `quadResults` needs: the bias, if there is one, and the output. */
export function quadEnds({ dtype, bias }: ChannelsForm): Record<string, Storage> {
  const { quad } = floatLayouts[dtype];
  return {
    ...(bias === true ? { bias: input(quad) } : {}), // channels
    output: output(quad), // images x out_height x out_width x channels
  };
}

/** `quads` counts the quads of channels of a pixel of the output. */
export const quadParameters = {
  images: "u32",
  height: "u32",
  width: "u32",
  quads: "u32",
  out_height: "u32",
  out_width: "u32",
  top: "u32",
  left: "u32",
} as const;

/** The `quad` of an invocation and its `strip` of COLUMNS pixels, of which a row of the output has `strips`. */
export const stripOfQuad: string = wgsl`  let index = workgroup_index(workgroup, workgroups) * LANES + lane;
  let strip = index / parameters.quads;
  let quad = index - strip * parameters.quads;
  let strips = (parameters.out_width + COLUMNS - 1u) / COLUMNS;`;

/** Functions that give the bias of four channels, and store their results at a pixel. Needs the parameter `quads`. */
export function quadResults({ dtype, bias, activation }: ChannelsForm): string {
  const { functions, unpacked, packed } = floatLayouts[dtype];
  return wgsl`
${workgroupIndex}
${functions}
${activationText(activation, dtype)}
fn bias_of(quad: u32) -> vec4f {
  ${bias === true ? `let block = bias[parameters.bias_offset + quad];\n  return ${unpacked("block")};` : "return vec4f();"}
}

fn store(pixel: u32, quad: u32, sum: vec4f) {
  let value = ${activated(activation, "sum", true)};
  output[parameters.output_offset + pixel * parameters.quads + quad] = ${packed("value")};
}
`;
}

/** A result of the tile, counted along one axis, and the tap of it that meets a place of the input. */
export interface Meeting {
  readonly result: number;
  readonly tap: number;
}

/** Of each place of the input that windows meet, in order: which taps of which results do. */
export function meetingsOf({ taps, stride, dilation }: ChannelsAxis, results: number): [number, Meeting[]][] {
  const places = new Map<number, Meeting[]>();
  for (let result = 0; result < results; result++)
    for (let tap = 0; tap < taps; tap++) {
      const place = result * stride + tap * dilation;
      places.set(place, [...(places.get(place) ?? []), { result, tap }]);
    }
  return [...places].sort(([a], [b]) => a - b);
}

/** Each row of the input is loaded once for all windows of the tile, and the filter as its rows come up. */
function productsText(tile: ChannelsTile, { down, across }: ChannelsForm): string {
  const text: string[] = [];
  const weights = filterText(down.taps, across.taps);
  const columns = meetingsOf(across, COLUMNS);
  for (const [row, results] of meetingsOf(down, tile.rows)) {
    text.push(wgsl`  let row_${row} = first_row + ${row}u;
  let inside_${row} = row_${row} < parameters.height;
  let base_${row} = (image * parameters.height + row_${row}) * parameters.width;`);
    for (const [column] of columns)
      text.push(
        `  let value_${row}_${column} = load(base_${row}, first_column + ${column}u, quad, inside_${row});`,
      );
    for (const { result, tap } of results) {
      text.push(...weights(tap));
      for (const [column, places] of columns)
        for (const place of places)
          text.push(
            `  sum_${result}_${place.result} += weight_${tap}_${place.tap} * value_${row}_${column};`,
          );
    }
  }
  return text.join("\n");
}

/**
 * Returns what loads `weight_row_column` for one row of the filter, unless it is loaded already. The filters of four
 * channels, one after the other, are as many quads as they have taps; a weight has an element of each filter.
 */
function filterText(rows: number, columns: number): (row: number) => string[] {
  const taps = rows * columns;
  const loaded = new Set<string>();
  const once = (name: string, value: string): string[] => {
    if (loaded.has(name)) return [];
    loaded.add(name);
    return [`  let ${name} = ${value};`];
  };
  return (row) =>
    Array.from({ length: columns }, (_, column) => {
      const places = [0, 1, 2, 3].map((channel) => channel * taps + row * columns + column);
      const elements = places.map((place) => `filter_${place >> 2}.${"xyzw"[place & 3]}`);
      return [
        ...places.flatMap((place) =>
          once(`filter_${place >> 2}`, `filter_quad(filter_base + ${place >> 2}u)`),
        ),
        ...once(`weight_${row}_${column}`, `vec4f(${elements.join(", ")})`),
      ];
    }).flat();
}
