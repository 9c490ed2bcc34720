import { wgsl } from "../../program/index.js";

/** How pixels of the output and places of the filter map to pixels of the input, and how the sum is divided. */
export const gradientParameters = {
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
  /** Pixels of a part of the sum, or planes of images. */
  part: "u32",
  /** 1: adds to the results that are there. */
  accumulate: "u32",
} as const;

/** Stores one result in `output`, or adds it there. */
export const storeSum: string = wgsl`
fn store_sum(at: u32, sum: f32) {
  var result = sum;
  if (parameters.accumulate != 0u) { result += output[at]; }
  output[at] = result;
}
`;
