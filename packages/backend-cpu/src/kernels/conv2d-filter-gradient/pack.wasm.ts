import { type Conv2dGeometry, dtypeBytes, type FloatType } from "@backplane/core";
import { i32 } from "../../wasm/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { packFunction } from "../panels/index.js";
import { tileColumns } from "../tile/index.js";

const packTypes = {
  gradient: "i32",
  panels: "i32",
  groups: "i32",
  groupOutputs: "i32",
  panelsPerGroup: "i32",
  /** Pixels of one image. */
  pixels: "i32",
  /** Bytes from image to image, and from channel to channel. */
  imageBytes: "i32",
  channelBytes: "i32",
  /** Bytes from line to line of `packFunction`, and whether pixels of a channel are neighbours. */
  stride: "i32",
  alongPixels: "i32",
} as const;

export type PackTypes = typeof packTypes;

/**
 * The output's gradient in panels of `tileColumns` channels: panels[image][group][panel][pixel][channel]. A chunk packs one panel
 * of one image.
 */
export function packKernel(dtype: FloatType): Kernel<PackTypes> {
  return defineKernel({
    name: `conv2d_filter_gradient_pack_${dtype}`,
    parameters: packTypes,
    emit(f, { parameters, chunk, module }) {
      const { groups, groupOutputs, panelsPerGroup, pixels, channelBytes } = parameters;
      const channel = f.let(i32.mul(i32.remU(chunk, panelsPerGroup), tileColumns));
      const rest = f.let(i32.divU(chunk, panelsPerGroup));
      const first = i32.add(i32.mul(i32.remU(rest, groups), groupOutputs), channel);
      const image = i32.mul(i32.divU(rest, groups), parameters.imageBytes);
      const source = i32.add(i32.add(parameters.gradient, image), i32.mul(first, channelBytes));
      f.call(
        packFunction(module, dtype, tileColumns),
        f.let(source),
        parameters.stride,
        i32.minU(i32.sub(groupOutputs, channel), tileColumns),
        pixels,
        i32.add(parameters.panels, i32.mul(i32.mul(chunk, pixels), 4 * tileColumns)),
        parameters.alongPixels,
        0,
      );
    },
  });
}

/** The steps of the packing through images of a layout. */
export function packLines(
  dtype: FloatType,
  layout: Conv2dGeometry["layout"],
  channels: number,
  pixels: number,
): Readonly<Record<"channelBytes" | "stride" | "alongPixels", number>> {
  const bytes = dtypeBytes[dtype];
  return layout === "NCHW"
    ? { channelBytes: pixels * bytes, stride: pixels * bytes, alongPixels: 1 }
    : { channelBytes: bytes, stride: channels * bytes, alongPixels: 0 };
}
