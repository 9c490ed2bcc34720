import { floatTypes } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import type { OperationEntry } from "../operation.js";
import { runConv } from "./conv2d.js";
import type { ConvProblem } from "./problem.js";
import { convSegments } from "./segments.js";
import { splitting } from "./split/on-demand.js";
import { type ConvShape, convFields, convVariants } from "./variants.js";

export { patchParameters } from "./patches.wgsl.js";
export type { ConvProblem } from "./problem.js";
export { type ConvChoice, selectConv } from "./select.js";
export { splitting } from "./split/on-demand.js";
export { type StripWindow, stripWindow } from "./strip.wgsl.js";
export { type ConvShape, type ConvVariant, convFields, convVariants } from "./variants.js";

export const conv2d: OperationEntry<"conv2d", ConvProblem, ConvShape> = {
  operation: "conv2d",
  supports: [{ dtype: floatTypes, activation: true }],
  run: runConv,
  segments: convSegments,
  variants: { rows: convVariants, fields: convFields },
  details: transformDetails,
  async load({ splitsProducts = false }) {
    if (splitsProducts) await splitting.load();
  },
};

/** The option `transformedConvolutions`, if it allows transforms. */
function transformDetails({
  transformedConvolutions = "never",
}: DeviceFeatures): Readonly<Record<string, string>> {
  return transformedConvolutions === "never" ? {} : { transformedConvolutions };
}
