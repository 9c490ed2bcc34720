import type { FloatType } from "@backplane/core";
import { lines, wgsl } from "../../program/index.js";
import { type ProductTile, rightTile, type Stage, tileThreads } from "../tiles/index.js";

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
 * Needs `input_base`. A tap is one of the terms of the sum: a channel of the group and a place in the filter.
 * Indices of input elements wrap below zero; nothing is read there.
 */
export const pixelFunctions: string = wgsl`
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
  return Pixel(y, x, input_base + first + u32(y) * parameters.width + u32(x));
}
`;

/** Needs `input_load1` besides. */
export const tapFunctions = (dtype: FloatType): string => wgsl`
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
  let index = pixel.index + (tap.channel * parameters.height + down) * parameters.width + across;
  ${insideLoads[dtype]}
}
`;

/**
 * Of the two, f32 is quicker by branches, which become conditional loads; a choice has to wait for the
 * load, in front of the product. Halves are widened after the load, and the branches around that stay.
 */
const insideLoads: Readonly<Record<FloatType, string>> = {
  f32: `if (!inside) { return 0.0; }
  return input_load1(index);`,
  f16: "return select(0.0, input_load1(select(0u, index, inside)), inside);",
};

/**
 * How patches are read. `padded`: any filter, with tests for the padding. `points`: filters of one tap
 * without padding, which need no tests. `quads`: as `points`, if every run of four pixels is four neighbours
 * of the input, in one image and aligned.
 */
export type Patches = "padded" | "points" | "quads";

/**
 * Stages the right operand of a convolution: group_channels * kernel_height * kernel_width taps by
 * pixels. Each invocation keeps the same pixels throughout and steps its taps without a division.
 */
export function patchStage(tile: ProductTile, patches: Patches): Stage {
  const quads = tile.columns / 4;
  const { total } = tileThreads(tile);
  const rounds = (quads * tile.depth) / total;
  if (total % quads !== 0 || !Number.isInteger(rounds)) throw new RangeError("patches do not divide evenly");
  const each = (line: (round: number) => string) => lines(rounds, line);
  const depth = (round: number) => `(patch_depth + ${(round * total) / quads}u)`;
  const pixels = lines(
    patches === "quads" ? 1 : 4,
    (i) => `  let pixel_${i} = find_pixel(columnBase + patch_quad * 4u + ${i}u, channelGroup);`,
  );
  const access = patches === "padded" ? paddedAccess : pointAccess(patches, depth);
  return {
    prepare: wgsl`
  let patch_quad = lane % ${quads}u;
  let patch_depth = lane / ${quads}u;
${pixels}
${access.prepare}
${each((r) => `${access.prepareRound(r, depth(r))}\n  var patch_${r} = vec4f();`)}`,
    load: each(
      (r) => wgsl`  patch_${r} = vec4f();
  if (depthBase + ${depth(r)} < k) { patch_${r} = ${access.value(r)}; }
${access.step(r)}`,
    ),
    loadWhole: each((r) => `  patch_${r} = ${access.value(r)};\n${access.step(r)}`),
    store: (to) =>
      each((r) => `    ${rightTile(to)(`${depth(r)} * RIGHT_PITCH + patch_quad`)} = patch_${r};`),
  };
}

interface Access {
  readonly prepare: string;
  readonly prepareRound: (round: number, depth: string) => string;
  /** WGSL expression: the four values of a round. */
  readonly value: (round: number) => string;
  /** Returns a statement that moves to the next step of k. */
  readonly step: (round: number) => string;
}

const fours = (text: (i: number) => string): string => `vec4f(${[0, 1, 2, 3].map(text).join(", ")})`;

const paddedAccess: Access = {
  prepare: "  let tap_step = find_tap(DEPTH);",
  prepareRound: (r, depth) => `  var tap_${r} = find_tap(depthStart + ${depth});`,
  value: (r) => fours((i) => `patch_value(pixel_${i}, tap_${r})`),
  step: (r) => `  tap_${r} = later_tap(tap_${r}, tap_step);`,
};

function pointAccess(patches: Patches, depth: (round: number) => string): Access {
  const channel = (r: number) => `(depthBase + ${depth(r)}) * input_plane`;
  return {
    prepare: "  let input_plane = parameters.height * parameters.width;",
    prepareRound: () => "",
    value: (r) =>
      patches === "quads"
        ? `input_load4(pixel_0.index + ${channel(r)})`
        : fours((i) => `input_load1(pixel_${i}.index + ${channel(r)})`),
    step: () => "",
  };
}
