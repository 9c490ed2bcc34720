import { wgsl } from "../../program/index.js";
import { patchParameters } from "../conv2d/index.js";

/** How pixels of the output and places of the filter map to pixels of the input, and how the sum is divided. */
export const gradientParameters: typeof patchParameters & Readonly<Record<"part" | "accumulate", "u32">> = {
  ...patchParameters,
  /** Pixels of a part of the sum, or planes of images. */
  part: "u32",
  /** 1: adds to the results that are there. */
  accumulate: "u32",
};

/** Stores one result in `output`, or adds it there. */
export const storeSum: string = wgsl`
fn store_sum(at: u32, sum: f32) {
  var result = sum;
  if (parameters.accumulate != 0u) { result += output[at]; }
  output[at] = result;
}
`;
