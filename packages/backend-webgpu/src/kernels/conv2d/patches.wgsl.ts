import { wgsl } from "../../wgsl.js";
import { lines } from "../gemm/lines.js";
import type { Stage } from "../gemm/product.wgsl.js";
import { type ProductTile, tileThreads } from "../gemm/tile.js";

/** Parameters that say how output pixels and filter taps map to input pixels. */
export const patchParameters = {
  height: "u32",
  width: "u32",
  in_channels: "u32",
  group_channels: "u32",
  kernel_height: "u32",
  kernel_width: "u32",
  out_height: "u32",
  out_width: "u32",
  stride_y: "u32",
  stride_x: "u32",
  top: "u32",
  left: "u32",
  dilation_y: "u32",
  dilation_x: "u32",
  groups: "u32",
  /** Output channels of one group. */
  group_outputs: "u32",
  /** batch * out_height * out_width */
  pixels: "u32",
} as const;

/**
 * Needs `input_load1` and `input_base`. A tap is one of the terms of the sum: a channel of the group
 * and a place in the filter. Indices of input elements wrap round below zero, where nothing is read.
 */
export const patchFunctions: string = wgsl`
struct Pixel {
  y: i32, // input row and column of its first tap; negative in the padding
  x: i32,
  index: u32, // of the input element of its first tap
}

fn find_pixel(pixel: u32, group: u32) -> Pixel {
  let place = min(pixel, parameters.pixels - 1u);
  let row = place / parameters.out_width;
  let y = i32(row % parameters.out_height * parameters.stride_y) - i32(parameters.top);
  let x = i32(place % parameters.out_width * parameters.stride_x) - i32(parameters.left);
  let channel = row / parameters.out_height * parameters.in_channels + group * parameters.group_channels;
  let first = channel * parameters.height * parameters.width;
  return Pixel(y, x, first + u32(y) * parameters.width + u32(x));
}

struct Tap {
  channel: u32,
  y: u32, // place in the filter
  x: u32,
}

fn find_tap(index: u32) -> Tap {
  let row = index / parameters.kernel_width;
  return Tap(row / parameters.kernel_height, row % parameters.kernel_height, index % parameters.kernel_width);
}

/// The tap so much further on; each part of the step is less than its extent, channels apart.
fn later_tap(tap: Tap, step: Tap) -> Tap {
  var later = Tap(tap.channel + step.channel, tap.y + step.y, tap.x + step.x);
  if (later.x >= parameters.kernel_width) {
    later.x -= parameters.kernel_width;
    later.y += 1u;
  }
  if (later.y >= parameters.kernel_height) {
    later.y -= parameters.kernel_height;
    later.channel += 1u;
  }
  return later;
}

/// The input element under a tap of a pixel, zero in the padding.
fn patch_value(pixel: Pixel, tap: Tap) -> f32 {
  let down = tap.y * parameters.dilation_y;
  let across = tap.x * parameters.dilation_x;
  let inside = u32(pixel.y) + down < parameters.height && u32(pixel.x) + across < parameters.width;
  if (!inside) { return 0.0; }
  return input_load1(
    input_base + pixel.index + (tap.channel * parameters.height + down) * parameters.width + across);
}
`;

/**
 * Stages the right operand of a convolution: group_channels * kernel_height * kernel_width taps by
 * pixels. Each invocation keeps the same pixels throughout and steps its taps without a division.
 */
export function patchStage(tile: ProductTile): Stage {
  const quads = tile.columns / 4;
  const { total } = tileThreads(tile);
  const rounds = (quads * tile.depth) / total;
  if (total % quads !== 0 || !Number.isInteger(rounds)) throw new RangeError("patches do not divide evenly");
  const each = (line: (round: number) => string) => lines(rounds, line);
  const values = [0, 1, 2, 3];
  return {
    prepare: wgsl`
  let patch_quad = lane % ${quads}u;
  let patch_depth = lane / ${quads}u;
  let tap_step = find_tap(DEPTH);
${values.map((i) => `  let pixel_${i} = find_pixel(columnBase + patch_quad * 4u + ${i}u, channelGroup);`).join("\n")}
${each((r) => `  var tap_${r} = find_tap(patch_depth + ${(r * total) / quads}u);\n  var patch_${r} = vec4f();`)}`,
    load: each((r) => {
      const parts = values.map((i) => `patch_value(pixel_${i}, tap_${r})`).join(", ");
      return wgsl`  patch_${r} = vec4f();
  if (tap_${r}.channel < parameters.group_channels) { patch_${r} = vec4f(${parts}); }
  tap_${r} = later_tap(tap_${r}, tap_step);`;
    }),
    store: each(
      (r) =>
        `    rightTile[(patch_depth + ${(r * total) / quads}u) * RIGHT_PITCH + patch_quad] = patch_${r};`,
    ),
  };
}
