import type { Features } from "../kernel.js";
import { tileRows } from "../tile/index.js";

/** "tall": many output channels per group, which are computed several at a time. "wide": few, as in depthwise. */
export type ConvolutionForm = "tall" | "wide";

/** The register tile of the innermost loop: output channels x vectors of output places. */
export interface ConvolutionTile {
  readonly channels: number;
  readonly vectors: number;
}

export function convolutionTile(form: ConvolutionForm, features: Features): ConvolutionTile {
  return form === "wide" ? { channels: 1, vectors: 8 } : { channels: tileRows(features), vectors: 2 };
}

/** With fewer channels in a group it is faster to compute one at a time, in longer rows. */
const fewestTallChannels = 4;

export function convolutionForm(groupOutChannels: number): ConvolutionForm {
  return groupOutChannels < fewestTallChannels ? "wide" : "tall";
}

/** Roughly how long a multiply-add takes one worker. */
export const productNanoseconds = 0.05;
