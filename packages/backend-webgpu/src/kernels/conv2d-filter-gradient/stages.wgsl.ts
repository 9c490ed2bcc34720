import { lines, wgsl } from "../../program/index.js";
import {
  leftTile,
  type ProductTile,
  type QuadAccess,
  rightTile,
  type Stage,
  tileThreads,
} from "../tiles/index.js";

/** Images with as many planes as there are rows, or columns: each pixel of the batch is a step of k. */
export interface PlanesStage {
  readonly side: "left" | "right";
  /** Every run of four pixels that starts at a multiple of four lies in one plane and is aligned: `quad` reads it. */
  readonly vector: boolean;
  /** The WGSL function that reads one element. */
  readonly load1: string;
  readonly quad: QuadAccess;
  /** WGSL expressions: index of the first element of the group, its planes, elements from image to image. */
  readonly base: string;
  readonly extent: string;
  readonly imageStep: string;
}

const four = [0, 1, 2, 3] as const;
const list = (text: (i: number) => string): string => four.map(text).join(", ");

/** How the quads of rows or columns, and the steps of k, are shared out: each invocation stays with its steps. */
function shares(tile: ProductTile, side: PlanesStage["side"], perRound: number) {
  const quads = (side === "left" ? tile.rows : tile.columns) / 4;
  const steps = tile.depth / perRound;
  const { total } = tileThreads(tile);
  if (total % steps !== 0) throw new RangeError("steps do not divide evenly");
  const apart = total / steps;
  const rounds = Math.ceil(quads / apart);
  const guard = quads % apart === 0 ? undefined : (quad: string) => `${quad} < ${quads}u`;
  return { steps, apart, rounds, guard };
}

/**
 * Stages planes of images, of which consecutive pixels are consecutive steps. Planes past the end repeat the last one: their
 * results are never stored. Where a pixel is follows from the one before, without a division.
 */
export function planesStage(tile: ProductTile, stage: PlanesStage): Stage {
  const { side, vector, quad, load1 } = stage;
  const perRound = vector ? 4 : 1;
  const { steps, apart, rounds, guard } = shares(tile, side, perRound);
  const each = (line: (round: number) => string) => lines(rounds, line);
  const base = side === "left" ? "rowBase" : "columnBase";
  const pitch = side === "left" ? "LEFT_PITCH" : "RIGHT_PITCH";
  const staged = side === "left" ? leftTile : rightTile;
  const isPacked = vector && quad.type !== "vec4f";
  const type = vector ? quad.type : "vec4f";
  const names = (r: number) => (vector ? four.map((i) => `${side}_value_${r}_${i}`) : [`${side}_value_${r}`]);
  const guarded = (r: number, text: string) =>
    guard === undefined ? text : `  if (${guard(`${side}_quad_${r}`)}) {\n${text}\n  }`;
  const loads = (r: number) =>
    guarded(
      r,
      vector
        ? four
            .map((i) => `    ${names(r)[i]} = ${quad.load}(${side}_at_${r}_${i} + ${side}_place);`)
            .join("\n")
        : `    ${names(r)[0]} = vec4f(${list((i) => `${load1}(${side}_at_${r}_${i} + ${side}_place)`)});`,
    );
  const advance = wgsl`  ${side}_pixel += ${side}_step_pixel;
  ${side}_image += ${side}_step_image;
  if (${side}_pixel >= plane) {
    ${side}_pixel -= plane;
    ${side}_image += 1u;
  }`;
  const place = `  let ${side}_place = ${side}_image * ${stage.imageStep} + ${side}_pixel;`;
  return {
    prepare: wgsl`
  let ${side}_depth = lane % ${steps}u * ${perRound}u;
  let ${side}_step_image = DEPTH / plane;
  let ${side}_step_pixel = DEPTH % plane;
  var ${side}_image = (depthStart + ${side}_depth) / plane;
  var ${side}_pixel = (depthStart + ${side}_depth) % plane;
${each(
  (r) => `  let ${side}_quad_${r} = lane / ${steps}u + ${r * apart}u;
${lines(4, (i) => `  let ${side}_at_${r}_${i} = ${stage.base} + min(${base} + ${side}_quad_${r} * 4u + ${i}u, ${stage.extent} - 1u) * plane;`)}
${names(r)
  .map((name) => `  var ${name} = ${type}();`)
  .join("\n")}`,
)}`,
    load: wgsl`  {
${each((r) =>
  names(r)
    .map((name) => `  ${name} = ${type}();`)
    .join("\n"),
)}
  if (depthBase + ${side}_depth < k) {
${place}
${each(loads)}
  }
${advance}
  }`,
    loadWhole: wgsl`  {
${place}
${each(loads)}
${advance}
  }`,
    store: (to) =>
      each((r) => {
        const ready = names(r).map((name) => (isPacked ? `${name}_unpacked` : name));
        const unpack = isPacked
          ? names(r).map((name, i) => `    let ${ready[i]} = ${quad.unpacked(name)};`)
          : [];
        const values = vector
          ? four.map((step) => `vec4f(${ready.map((name) => `${name}.${"xyzw"[step]}`).join(", ")})`)
          : ready;
        const stores = values.map(
          (value, step) =>
            `    ${staged(to)(`(${side}_depth + ${step}u) * ${pitch} + ${side}_quad_${r}`)} = ${value};`,
        );
        return guarded(r, [...unpack, ...stores].join("\n"));
      }),
  };
}

/**
 * Stages the right operand of the gradient: pixels of the output by places of the filter, group_channels * kernel_height *
 * kernel_width of them; the input element that lies under both. Each invocation keeps the same places throughout.
 * Neighbouring invocations have neighbouring pixels.
 */
export function windowsStage(tile: ProductTile): Stage {
  const { steps, apart, rounds, guard } = shares(tile, "right", 1);
  const each = (line: (round: number) => string) => lines(rounds, line);
  const guarded = (r: number, text: string) =>
    guard === undefined ? text : `  if (${guard(`right_quad_${r}`)}) {\n${text}\n  }`;
  const values = (r: number) =>
    guarded(r, `    right_value_${r} = vec4f(${list((i) => `window_value(right_spot, tap_${r}_${i})`)});`);
  // Beyond the end of the sum as in the padding, which needs a check anyway.
  const load = wgsl`  {
  var right_spot = origin_of(right_pixel, first_input);
  if (depthBase + right_depth >= k) { right_spot.y = NOWHERE; }
${each(values)}
  right_pixel = later_pixel(right_pixel, right_step);
  }`;
  return {
    prepare: wgsl`
  let right_depth = lane % ${steps}u;
  let right_step = find_pixel(DEPTH);
  var right_pixel = find_pixel(depthStart + right_depth);
${each(
  (r) => `  let right_quad_${r} = lane / ${steps}u + ${r * apart}u;
${lines(4, (i) => `  let tap_${r}_${i} = find_tap(columnBase + right_quad_${r} * 4u + ${i}u);`)}
  var right_value_${r} = vec4f();`,
)}`,
    ...{ load, loadWhole: load },
    store: (to) =>
      each((r) =>
        guarded(r, `    ${rightTile(to)(`right_depth * RIGHT_PITCH + right_quad_${r}`)} = right_value_${r};`),
      ),
  };
}

/**
 * Stages the same operand from images whose channels are last, and which have the padding: neighbouring invocations have
 * neighbouring channels of one place, four each. Places go before channels, whose number is a multiple of four.
 */
export function channelsStage(tile: ProductTile, quad: QuadAccess): Stage {
  const quads = tile.columns / 4;
  const apart = tileThreads(tile).total / quads;
  const rounds = tile.depth / apart;
  if (!Number.isInteger(apart) || !Number.isInteger(rounds))
    throw new RangeError("steps do not divide evenly");
  const each = (line: (round: number) => string) => lines(rounds, line);
  const place = (r: number) =>
    `right_tap + ((right_pixel_${r}.image * parameters.height + right_pixel_${r}.y * parameters.stride_y) * parameters.width + right_pixel_${r}.x * parameters.stride_x) * parameters.in_channels`;
  const load = (r: number) => `  right_value_${r} = ${quad.load}(${place(r)});`;
  const later = each((r) => `  right_pixel_${r} = later_pixel(right_pixel_${r}, right_step);`);
  return {
    prepare: wgsl`
  let right_quad = lane % ${quads}u;
  let right_column = min(columnBase + right_quad * 4u, taps - 4u);
  let right_place = right_column / parameters.group_channels;
  let right_tap = parameters.input_offset * input_unit + right_column % parameters.group_channels +
    (right_place / parameters.kernel_width * parameters.dilation_y * parameters.width +
      right_place % parameters.kernel_width * parameters.dilation_x) * parameters.in_channels;
  let right_step = find_pixel(DEPTH);
${each(
  (r) => `  let right_depth_${r} = lane / ${quads}u + ${r * apart}u;
  var right_pixel_${r} = find_pixel(depthStart + right_depth_${r});
  var right_value_${r} = ${quad.type}();`,
)}`,
    load: wgsl`
${each((r) => `  right_value_${r} = ${quad.type}();\n  if (depthBase + right_depth_${r} < k) {\n${load(r)}\n  }`)}
${later}`,
    loadWhole: `${each(load)}\n${later}`,
    store: (to) =>
      each((r) => {
        const at = rightTile(to)(`right_depth_${r} * RIGHT_PITCH + right_quad`);
        return `    ${at} = ${quad.type === "vec4f" ? `right_value_${r}` : quad.unpacked(`right_value_${r}`)};`;
      }),
  };
}

/** The functions that `channelsStage` calls. */
export const pixelFunctions: string = wgsl`
struct Pixel { // of the output
  image: u32,
  y: u32,
  x: u32,
}

fn find_pixel(index: u32) -> Pixel {
  let row = index / parameters.out_width;
  return Pixel(row / parameters.out_height, row % parameters.out_height, index % parameters.out_width);
}

/// The pixel so much further on; row and column of the step are less than the extents.
fn later_pixel(pixel: Pixel, step: Pixel) -> Pixel {
  var later = Pixel(pixel.image + step.image, pixel.y + step.y, pixel.x + step.x);
  if (later.x >= parameters.out_width) {
    later.x -= parameters.out_width;
    later.y += 1u;
  }
  if (later.y >= parameters.out_height) {
    later.y -= parameters.out_height;
    later.image += 1u;
  }
  return later;
}
`;

/** The functions that `windowsStage` calls. Needs `input_load1`, and `input_base`, the index of the first element. */
export const windowFunctions: string = wgsl`
${pixelFunctions}
/// No row of the input, nor one that a place of the filter leads back from.
const NOWHERE = 0x80000000u;

struct Spot { // of the input; rows, columns and indices wrap round below zero, and nothing is read there
  y: u32,
  x: u32,
  index: u32,
}

/// Where the first place of the filter lies in the first channel of a group, which begins so far into an image.
fn origin_of(pixel: Pixel, first: u32) -> Spot {
  let y = pixel.y * parameters.stride_y - parameters.top;
  let x = pixel.x * parameters.stride_x - parameters.left;
  let image = pixel.image * parameters.in_channels * parameters.height * parameters.width;
  return Spot(y, x, image + first + y * parameters.width + x);
}

/// How far a place of the filter lies from the first; those past the end are as the last one.
fn find_tap(index: u32) -> Spot {
  let taps = parameters.group_channels * parameters.kernel_height * parameters.kernel_width;
  let place = min(index, taps - 1u);
  let row = place / parameters.kernel_width;
  let y = row % parameters.kernel_height * parameters.dilation_y;
  let x = place % parameters.kernel_width * parameters.dilation_x;
  let channel = row / parameters.kernel_height;
  return Spot(y, x, input_base + channel * parameters.height * parameters.width + y * parameters.width + x);
}

fn window_value(origin: Spot, tap: Spot) -> f32 {
  if (origin.y + tap.y >= parameters.height || origin.x + tap.x >= parameters.width) { return 0.0; }
  return input_load1(origin.index + tap.index);
}
`;
