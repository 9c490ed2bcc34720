import type { DType } from "@backplane/core";
import { input, memoized, output, type Program, program, type Storage } from "../../program.js";
import { halfFunctions, linearBuiltins, wgsl, workgroupIndex } from "../../wgsl.js";
import { lines } from "../gemm/lines.js";
import { operandText } from "../gemm/operands.wgsl.js";
import { productSource } from "../gemm/product.wgsl.js";
import { matrixStage } from "../gemm/stage.wgsl.js";
import { type ProductTile, tileName } from "../gemm/tile.js";
import { patchFunctions, patchParameters, patchStage } from "./patches.wgsl.js";

/** What a kernel is generated for, besides its tile; sizes reach it as parameters. */
export interface ConvForm {
  readonly dtype: DType;
  readonly bias: boolean;
  /** The taps of one output channel are a multiple of four and the filter is aligned to four elements. */
  readonly vectorFilter: boolean;
}

/** Results are always f32; where the output is f16 they go to scratch of the same shape. */
function convBindings(form: ConvForm): { bindings: Record<string, Storage>; declarations: string } {
  const source = operandText("input", form.dtype, false);
  const filter = operandText("filter_", form.dtype, form.vectorFilter);
  return {
    bindings: {
      input: source.storage, // batch x in_channels x height x width
      filter_: filter.storage, // groups * group_outputs x group_channels x kernel_height x kernel_width
      ...(form.bias ? { bias: input(form.dtype === "f16" ? "half" : "f32") } : {}), // groups * group_outputs
      output: output("f32"), // batch x groups * group_outputs x out_height x out_width
    },
    declarations: wgsl`
${workgroupIndex}
${form.dtype === "f16" ? halfFunctions : ""}
${source.functions}
${filter.functions}
${patchFunctions.replaceAll("input_base", "parameters.input_offset")}
/// Index of the output element of a pixel in channel 0.
fn output_place(pixel: u32) -> u32 {
  let plane = parameters.out_height * parameters.out_width;
  let channels = parameters.groups * parameters.group_outputs;
  return parameters.output_offset + pixel / plane * channels * plane + pixel % plane;
}

/// Adds the bias and stores one result of an output channel.
fn store(channel: u32, place: u32, sum: f32) {
  output[place + channel * parameters.out_height * parameters.out_width] = sum + bias_of(channel);
}

fn bias_of(channel: u32) -> f32 {
  ${biasText(form)}
}
`,
  };
}

function biasText(form: ConvForm): string {
  if (!form.bias) return "return 0.0;";
  if (form.dtype === "f32") return "return bias[parameters.bias_offset + channel];";
  return "let at = parameters.bias_offset + channel;\n  return half_at(bias[at >> 1u], at);";
}

function formName({ dtype, bias, vectorFilter }: ConvForm): string {
  return `${dtype}${vectorFilter ? "_f4" : ""}${bias ? "_bias" : ""}`;
}

/**
 * Implicit gemm: for each group, filter (output channels x taps) times patches (taps x pixels of the
 * whole batch), whose values are gathered from the input when they are staged.
 */
export const implicitProgram: (tile: ProductTile, form: ConvForm) => Program = memoized(
  (tile: ProductTile, form: ConvForm): Program => {
    const { bindings, declarations } = convBindings(form);
    return program({
      name: `conv2d_implicit_${tileName(tile)}_${formName(form)}`,
      bindings,
      parameters: patchParameters,
      body: productSource({
        tile,
        declarations: wgsl`${declarations}
fn store_quad(row: u32, first: u32, pixel: u32, places: vec4u, sums: vec4f) {
  if (row >= parameters.group_outputs || pixel >= parameters.pixels) { return; }
  let last = parameters.pixels - 1u - pixel;
  let values = sums + bias_of(first + row);
  let at = places + (first + row) * parameters.out_height * parameters.out_width;
  output[at.x] = values.x;
  if (last >= 1u) { output[at.y] = values.y; }
  if (last >= 2u) { output[at.z] = values.z; }
  if (last >= 3u) { output[at.w] = values.w; }
}
`,
        prologue: wgsl`
  let tiles_across = (parameters.pixels + COLUMNS - 1u) / COLUMNS;
  let tiles = tiles_across * ((parameters.group_outputs + ROWS - 1u) / ROWS);
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * parameters.groups) { return; }
  let channelGroup = group / tiles;
  let first_output = channelGroup * parameters.group_outputs;
  let rowBase = group % tiles / tiles_across * ROWS;
  let columnBase = group % tiles_across * COLUMNS;
  let depthStart = 0u;
  let k = parameters.group_channels * parameters.kernel_height * parameters.kernel_width;
  let filter_base = parameters.filter__offset * filter__unit + first_output * k;`,
        left: matrixStage(tile, {
          ...{ side: "left", contiguousDepth: true, vector: form.vectorFilter },
          ...{ load1: "filter__load1", load4: "filter__load4", base: "filter_base" },
          ...{ pitch: "k", extent: "parameters.group_outputs" },
        }),
        right: patchStage(tile),
        prepareStore: (number, column) => {
          const places = [0, 1, 2, 3].map((i) => `output_place(${column} + ${i}u)`);
          return `  let places_${number} = vec4u(${places.join(", ")});`;
        },
        store: (row, column, quad, number) =>
          `store_quad(${row}, first_output, ${column}, places_${number}, ${quad});`,
      }),
    });
  },
);

/**
 * A workgroup of `lanes` invocations, each with `channels` output channels of `pixels` pixels that are
 * `lanes` apart, so that neighbouring invocations have neighbouring pixels.
 */
export interface DirectTile {
  readonly channels: number;
  readonly pixels: number;
  readonly lanes: number;
}

/** Such as `4x64`: output channels and pixels of one workgroup. */
export function directName({ channels, pixels, lanes }: DirectTile): string {
  return `${channels}x${pixels * lanes}`;
}

/** Sums straight from the buffers: right where a group has too few output channels to share patches. */
export const directProgram: (tile: DirectTile, form: ConvForm) => Program = memoized(
  (tile: DirectTile, form: ConvForm): Program => {
    const { bindings, declarations } = convBindings(form);
    const perChannel = (line: (i: number) => string) => lines(tile.channels, line);
    const perPixel = (line: (j: number) => string) => lines(tile.pixels, line);
    return program({
      name: `conv2d_direct_${directName(tile)}_${formName(form)}`,
      bindings,
      parameters: patchParameters,
      body: wgsl`${declarations}
const CHANNELS = ${tile.channels}u;
const LANES = ${tile.lanes}u;
const PIXELS = ${tile.pixels}u * LANES;

fn store_one(channel: u32, end: u32, pixel: u32, sum: f32) {
  if (channel < end && pixel < parameters.pixels) { store(channel, output_place(pixel), sum); }
}

// One invocation computes CHANNELS output channels of one group at every LANES-th of PIXELS pixels.
@compute @workgroup_size(LANES)
fn main(${linearBuiltins}) {
  let across = (parameters.pixels + PIXELS - 1u) / PIXELS;
  let blocks = (parameters.group_outputs + CHANNELS - 1u) / CHANNELS;
  let group = workgroup_index(workgroup, workgroups);
  let channelGroup = group / across / blocks;
  if (channelGroup >= parameters.groups) { return; }
  let first = group % across * PIXELS + lane;
  let channel = channelGroup * parameters.group_outputs + group / across % blocks * CHANNELS;
  let end = (channelGroup + 1u) * parameters.group_outputs;
  let taps = parameters.group_channels * parameters.kernel_height * parameters.kernel_width;
${perPixel((j) => `  let pixel_${j} = find_pixel(first + ${j * tile.lanes}u, channelGroup);`)}
${perChannel((i) => `  var filter_${i} = parameters.filter__offset + min(channel + ${i}u, end - 1u) * taps;`)}
${perChannel((i) => perPixel((j) => `  var sum_${i}_${j} = 0.0;`))}
  for (var c = 0u; c < parameters.group_channels; c++) {
    for (var y = 0u; y < parameters.kernel_height; y++) {
      for (var x = 0u; x < parameters.kernel_width; x++) {
${perPixel((j) => `        let value_${j} = patch_value(pixel_${j}, Tap(c, y, x));`)}
${perChannel(
  (i) => `        let weight_${i} = filter__load1(filter_${i});
${perPixel((j) => `        sum_${i}_${j} += weight_${i} * value_${j};`)}`,
)}
${perChannel((i) => `        filter_${i}++;`)}
      }
    }
  }
${perChannel((i) => perPixel((j) => `  store_one(channel + ${i}u, end, first + ${j * tile.lanes}u, sum_${i}_${j});`))}
}
`,
    });
  },
);
