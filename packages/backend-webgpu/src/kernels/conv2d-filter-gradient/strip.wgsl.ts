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
import { gradientParameters } from "./parameters.js";

/**
 * For groups of one input channel ("depthwise") and a filter of `side` x `side` with the same `stride` both ways:
 * invocations take four neighbouring pixels of the output at a time, for one row of the filter.
 */
export interface StripTile {
  readonly side: number;
  readonly stride: number;
  readonly lanes: number;
}

export interface StripForm {
  readonly dtype: FloatType;
  /** As `StripForm` of conv2d. */
  readonly vectorLeft: number | undefined;
  /** Rows of the output's gradient are whole quads, and aligned. */
  readonly vectorGradient: boolean;
}

/** Such as `3x3s1`: filter and stride. */
export function stripName({ side, stride }: StripTile): string {
  return `${side}x${side}s${stride}`;
}

/**
 * Each invocation sums its pixels for all places in a row of the filter in registers, and writes these sums as a part of its
 * own. The whole filter at once would read less, but is so much text in a loop that a software adapter compiles it for minutes.
 */
export const stripProgram: (tile: StripTile, form: StripForm) => Program = memoized(
  (tile: StripTile, form: StripForm): Program => {
    const { side, stride, lanes } = tile;
    const { dtype, vectorLeft, vectorGradient } = form;
    const source = operandText("input", dtype, vectorLeft !== undefined);
    const gradient = operandText("gradient", dtype, vectorGradient);
    const window = stripWindow(tile, vectorLeft);
    const sums = (line: (j: number) => string) => lines(side, line);
    // Elements that no window of the output meets may be infinite, and are not multiplied by zero.
    const met = (values: string) => (vectorGradient ? values : `select(vec4f(), ${values}, live)`);
    return program({
      name: `conv2d_filter_gradient_strip_${stripName(tile)}_${dtype}${vectorLeft === undefined ? "" : `_i4_left${vectorLeft}`}${vectorGradient ? "_g4" : ""}`,
      bindings: {
        gradient: gradient.storage, // batch x groups * group_outputs x out_height x out_width
        input: source.storage, // batch x in_channels x height x width
        output: output("f32"), // parts * LANES x groups * group_outputs x 1 x kernel_height x kernel_width
      },
      parameters: gradientParameters,
      body: wgsl`
${workgroupIndex}
${floatLayouts[dtype].functions}
${source.functions}
${gradient.functions}
const LANES = ${lanes}u;
const SIDE = ${side}u;
${vectorGradient ? "" : someOf}
// One invocation sums some of \`part\` strips of four columns, for one output channel and one row of the filter.
@compute @workgroup_size(LANES)
fn main(${linearBuiltins}) {
  let channels = parameters.groups * parameters.group_outputs;
  let plane = parameters.out_height * parameters.out_width;
  let across = (parameters.out_width + 3u) / 4u;
  let strips = parameters.pixels / parameters.out_width * across;
  let number = workgroup_index(workgroup, workgroups);
  let down = number % SIDE;
  let channel = number / SIDE % channels;
  let part = number / SIDE / channels;
  let first = part * parameters.part;
  if (first >= strips) { return; }
  let end = min(strips, first + parameters.part);
${sums((j) => `  var sum_${j} = 0.0;`)}
  for (var strip = first + lane; strip < end; strip += LANES) {
    let first_x = strip % across * 4u;
    let y = strip / across % parameters.out_height;
    let image = strip / across / parameters.out_height;
    let gradient_at = parameters.gradient_offset * gradient_unit + (image * channels + channel) * plane + y * parameters.out_width + first_x;
    let input_plane = image * parameters.in_channels + channel / parameters.group_outputs;
    let row = y * ${stride}u + down - parameters.top; // wraps round below zero
    let inside = row < parameters.height;
    let row_base = parameters.input_offset * input_unit + (input_plane * parameters.height + row) * parameters.width;
${window.prepare}
${vectorGradient ? "    let gradients = gradient_load4(gradient_at);" : someLoaded}
${window.load}
${sums((j) => {
  const values = [0, 1, 2, 3].map((i) => window.value(i * stride + j));
  return `    sum_${j} += dot(gradients, ${met(`vec4f(${values.join(", ")})`)});`;
})}
  }
  let at = parameters.output_offset + (((part * LANES + lane) * channels + channel) * SIDE + down) * SIDE;
${sums((j) => `  output[at + ${j}u] = sum_${j};`)}
}
`,
    });
  },
);

const someLoaded: string = wgsl`    let count = parameters.out_width - first_x;
    let live = vec4u(0u, 1u, 2u, 3u) < vec4u(count);
    let gradients = gradient_some(gradient_at, count);`;

const someOf: string = wgsl`
/// The first elements of four, zeros after them.
fn gradient_some(at: u32, count: u32) -> vec4f {
  var values = vec4f(gradient_load1(at), 0.0, 0.0, 0.0);
  if (count > 1u) { values.y = gradient_load1(at + 1u); }
  if (count > 2u) { values.z = gradient_load1(at + 2u); }
  if (count > 3u) { values.w = gradient_load1(at + 3u); }
  return values;
}
`;
