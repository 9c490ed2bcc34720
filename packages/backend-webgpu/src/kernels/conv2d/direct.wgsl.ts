import { linearBuiltins, lines, memoized, type Program, program, wgsl } from "../../program/index.js";
import { operandText } from "../tiles/index.js";
import { patchParameters, pixelFunctions, tapFunctions } from "./patches.wgsl.js";
import { type ConvResult, resultName, resultText } from "./results.wgsl.js";

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

/** Sums straight from the buffers: right if a group has too few output channels to share patches. */
export const directProgram: (tile: DirectTile, form: ConvResult) => Program = memoized(
  (tile: DirectTile, form: ConvResult): Program => {
    const source = operandText("input", form.dtype, false);
    const filter = operandText("filter_", form.dtype, false);
    const result = resultText(form);
    const perChannel = (line: (i: number) => string) => lines(tile.channels, line);
    const perPixel = (line: (j: number) => string) => lines(tile.pixels, line);
    return program({
      name: `conv2d_direct_${directName(tile)}_${form.dtype}${resultName(form)}`,
      bindings: {
        input: source.storage, // batch x in_channels x height x width
        filter_: filter.storage, // groups * group_outputs x group_channels x kernel_height x kernel_width
        ...result.bindings,
      },
      parameters: patchParameters,
      body: wgsl`${result.declarations}
${source.functions}
${filter.functions}
${pixelFunctions.replaceAll("input_base", "parameters.input_offset")}
${tapFunctions(form.dtype)}
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
