import {
  input,
  linearBuiltins,
  lines,
  memoized,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../../program/index.js";
import {
  exponentFunction,
  extremesText,
  RUN,
  splitFunctions,
  UNIT,
  UNROLL,
  WIDE,
} from "../../gemm/split/index.js";
import { PADDED_SIDE, paddedTile, perChannel, pixelOfCopy, valuesToTile } from "../../images/index.js";
import { CHUNK } from "./tile.js";

/*
 * Splitting images into pairs of f16, as gemm/split/pass.wgsl.ts does with lines. A sum has numbers of one image
 * only, so each image has one exponent for all its elements, and is wide as a line is.
 */

/** For each image the extremes of runs of CHUNK elements: the largest, then the smallest but zero less one. */
export const imageExtentsProgram: (vector: boolean) => Program<"input" | "extents", "size" | "images"> =
  memoized((vector: boolean) =>
    program({
      name: `conv2d_split_extents${vector ? "4" : ""}`,
      bindings: {
        input: input(vector ? "vec4f" : "f32"), // images x size
        extents: output("vec2u"), // images x chunks
      },
      parameters: { size: "u32", images: "u32" },
      light: true,
      body: wgsl`
${workgroupIndex}
const MAGNITUDE = 0x7fffffffu;
var<workgroup> largest_of: array<u32, ${WORKGROUP_SIZE}>;
var<workgroup> smallest_of: array<u32, ${WORKGROUP_SIZE}>;

/// Four elements from base + at on, zeros past the end of the image.
fn quad_at(base: u32, at: u32) -> vec4f {
${
  vector
    ? wgsl`  if (at >= parameters.size) { return vec4f(); }
  return input[(base + at) / 4u];`
    : wgsl`  var quad = vec4f();
  for (var i = 0u; i < 4u; i++) {
    if (at + i < parameters.size) { quad[i] = input[base + at + i]; }
  }
  return quad;`
}
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let chunks = (parameters.size + ${CHUNK - 1}u) / ${CHUNK}u;
  let chunk = workgroup_index(workgroup, workgroups); // counts through all images
  if (chunk >= chunks * parameters.images) { return; }
  let base = parameters.input_offset * ${vector ? 4 : 1}u + chunk / chunks * parameters.size;
  let first = chunk % chunks * ${CHUNK}u;
  var most = vec4u();
  var least_less_one = vec4u(0xffffffffu);
  for (var at = first + 4u * lane; at < first + ${CHUNK}u; at += ${4 * UNROLL * WORKGROUP_SIZE}u) {
${lines(UNROLL, (i) => `    let bits_${i} = bitcast<vec4u>(quad_at(base, at + ${4 * i * WORKGROUP_SIZE}u)) & vec4u(MAGNITUDE);`)}
${lines(UNROLL, (i) => `    most = max(most, bits_${i});\n    least_less_one = min(least_less_one, bits_${i} - 1u);`)}
  }
${extremesText}
  if (lane == 0u) { extents[parameters.extents_offset + chunk] = vec2u(largest_of[0], smallest_of[0]); }
}
`,
    }),
  );

/** The exponent of each image, or WIDE, from its extremes. A workgroup does one image. */
export const imageExponentsProgram: Program<"extents" | "exponents", "images" | "chunks" | "octaves"> =
  program({
    name: "conv2d_split_exponents",
    bindings: { extents: input("vec2u"), exponents: output("i32") }, // images x chunks; images
    parameters: { images: "u32", chunks: "u32", octaves: "u32" },
    light: true,
    body: wgsl`
${workgroupIndex}
${exponentFunction}
var<workgroup> largest_of: array<u32, ${WORKGROUP_SIZE}>;
var<workgroup> smallest_of: array<u32, ${WORKGROUP_SIZE}>;

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let image = workgroup_index(workgroup, workgroups);
  if (image >= parameters.images) { return; }
  let base = parameters.extents_offset + image * parameters.chunks;
  var most = vec4u();
  var least_less_one = vec4u(0xffffffffu);
  for (var chunk = lane; chunk < parameters.chunks; chunk += ${WORKGROUP_SIZE}u) {
    let extremes = extents[base + chunk];
    most.x = max(most.x, extremes.x);
    least_less_one.x = min(least_less_one.x, extremes.y);
  }
${extremesText}
  if (lane == 0u) { exponents[parameters.exponents_offset + image] = line_exponent(largest_of[0], smallest_of[0]); }
}
`,
  });

/** For each `block` pixels of all images: 1 if one of them lies in a wide image, otherwise 0. */
export const wideImagesProgram: (
  block: number,
) => Program<"exponents" | "blocks", "pixels" | "plane" | "count"> = memoized((block: number) =>
  program({
    name: `conv2d_split_blocks_${block}`,
    bindings: { exponents: input("i32"), blocks: output("u32") }, // images; blocks
    parameters: {
      /** Of all images, of one, and blocks of them. */
      ...{ pixels: "u32", plane: "u32", count: "u32" },
    },
    light: true,
    body: wgsl`
${workgroupIndex}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (index >= parameters.count) { return; }
  let last = min((index + 1u) * ${block}u, parameters.pixels) - 1u;
  var wide = 0u;
  for (var image = index * ${block}u / parameters.plane; image <= last / parameters.plane; image++) {
    if (exponents[parameters.exponents_offset + image] == ${WIDE}) { wide = 1u; }
  }
  blocks[parameters.blocks_offset + index] = wide;
}
`,
  }),
);

/** Units of channels of a tile, and pixels that a workgroup writes at a time. */
const EIGHTS = PADDED_SIDE / UNIT;
const WRITTEN = WORKGROUP_SIZE / EIGHTS;

/**
 * Images with their padding, channels last and split: copy[b, y + top, x + left, c] are the parts of input[b, c, y, x],
 * and 0 where there is no such element. Pixels have `padded_channels` pairs of parts, in runs of high and of low ones.
 * Of wide images nothing is written.
 */
export const splitCopyProgram: Program = program({
  name: "conv2d_split_copy",
  bindings: {
    input: input("f32"), // batch x channels x height x width
    exponents: input("i32"), // batch
    parts: output("half8"), // batch x copy_height x copy_width x 2 * padded_channels
  },
  parameters: {
    ...{ batch: "u32", channels: "u32", padded_channels: "u32", height: "u32", width: "u32" },
    /** With so many rows and columns of padding before those of the input. */
    ...{ copy_height: "u32", copy_width: "u32", top: "u32", left: "u32" },
  },
  body: wgsl`
${workgroupIndex}
${splitFunctions}
${paddedTile}

// One workgroup copies SIDE pixels of SIDE channels.
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let area = parameters.copy_height * parameters.copy_width;
  let across = (parameters.padded_channels + SIDE - 1u) / SIDE;
  let down = (area + SIDE - 1u) / SIDE;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= across * down * parameters.batch) { return; }
  // The last images first: caches still have some of them from looking for extremes (91 us instead of 93).
  let image = parameters.batch - 1u - group / across / down;
  let exponent = exponents[parameters.exponents_offset + image];
  if (exponent == ${WIDE}) { return; }
  let first_channel = group % across * SIDE;
  let first_pixel = group / across % down * SIDE;
  {
${pixelOfCopy("copy_width")}
    let count = select(0u, parameters.channels - first_channel, exists && first_channel < parameters.channels);
${perChannel((i, channel) => `    var value_${i} = 0.0;\n    if (${channel} < count) { value_${i} = input[start + (${channel}) * plane]; }`)}
${valuesToTile}
  }
  workgroupBarrier();
  let channel = lane % ${EIGHTS}u * ${UNIT}u;
  if (first_channel + channel >= parameters.padded_channels) { return; }
  let part = first_channel / ${RUN}u * ${2 * RUN}u + channel / ${RUN}u * ${2 * RUN}u + channel % ${RUN}u;
${lines(
  PADDED_SIDE / WRITTEN,
  (i) => wgsl`  {
    let own = lane / ${EIGHTS}u + ${i * WRITTEN}u;
    let pixel = first_pixel + own;
    if (pixel < area) {
      let at = channel * PITCH + own;
      split_at(
        parameters.parts_offset + ((image * area + pixel) * 2u * parameters.padded_channels + part) / ${UNIT}u, exponent,
        vec4f(tile[at], tile[at + PITCH], tile[at + 2u * PITCH], tile[at + 3u * PITCH]),
        vec4f(tile[at + 4u * PITCH], tile[at + 5u * PITCH], tile[at + 6u * PITCH], tile[at + 7u * PITCH]));
    }
  }`,
)}
}
`,
});
