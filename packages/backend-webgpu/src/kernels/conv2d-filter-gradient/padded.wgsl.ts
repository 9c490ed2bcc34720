import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  linearBuiltins,
  lines,
  memoized,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { PADDED_SIDE, paddedTile, perChannel, pixelOfCopy, valuesToTile } from "../images/index.js";
import { operandText } from "../tiles/index.js";

/** Quads of channels of a tile, and pixels that a workgroup writes at a time. */
const QUADS = PADDED_SIDE / 4;
const WRITTEN = WORKGROUP_SIZE / QUADS;

type Parameter =
  | "batch"
  | "channels"
  | "height"
  | "width"
  | "padded_height"
  | "padded_width"
  | "top"
  | "left";

const parameterTypes: Readonly<Record<Parameter, "u32">> = {
  ...{ batch: "u32", channels: "u32", height: "u32", width: "u32" },
  /** Of the results, which have so many rows and columns of padding before those of the source. */
  ...{ padded_height: "u32", padded_width: "u32", top: "u32", left: "u32" },
};

/**
 * Images with their padding, and channels last: output[b, y + top, x + left, c] = input[b, c, y, x], and 0 where there is no such
 * element. The number of channels is a multiple of four. Zeros and elements together take one pass over the output.
 */
export const paddedProgram: (dtype: FloatType) => Program<"input" | "output", Parameter> = memoized(
  (dtype: FloatType) => {
    const source = operandText("input", dtype, false);
    const { quad, packed, functions } = floatLayouts[dtype];
    return program({
      name: `conv2d_filter_gradient_padded_${dtype}`,
      bindings: {
        input: source.storage, // batch x channels x height x width
        output: output(quad), // batch x padded_height x padded_width x channels
      },
      parameters: parameterTypes,
      body: wgsl`
${workgroupIndex}
${functions}
${source.functions}
${paddedTile}

// One workgroup moves SIDE pixels of SIDE channels.
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let area = parameters.padded_height * parameters.padded_width;
  let across = (parameters.channels + SIDE - 1u) / SIDE;
  let down = (area + SIDE - 1u) / SIDE;
  let group = workgroup_index(workgroup, workgroups);
  let image = group / across / down;
  if (image >= parameters.batch) { return; }
  let first_channel = group % across * SIDE;
  let first_pixel = group / across % down * SIDE;
  {
${pixelOfCopy("padded_width")}
${perChannel((i) => `    var value_${i} = 0.0;`)}
    if (exists) {
${perChannel((i, channel) => `      value_${i} = input_load1(start + min(${channel}, parameters.channels - 1u - first_channel) * plane);`)}
    }
${valuesToTile}
  }
  workgroupBarrier();
  let quad = lane % ${QUADS}u;
  if (first_channel + quad * 4u >= parameters.channels) { return; }
${lines(
  PADDED_SIDE / WRITTEN,
  (i) => wgsl`  {
    let own = lane / ${QUADS}u + ${i * WRITTEN}u;
    let pixel = first_pixel + own;
    if (pixel < area) {
      let at = quad * 4u * PITCH + own;
      let values = vec4f(tile[at], tile[at + PITCH], tile[at + 2u * PITCH], tile[at + 3u * PITCH]);
      output[parameters.output_offset + ((image * area + pixel) * parameters.channels + first_channel) / 4u + quad] = ${packed("values")};
    }
  }`,
)}
}
`,
    });
  },
);
