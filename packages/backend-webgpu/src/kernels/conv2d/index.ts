import { type Conv2dProblem, floatTypes } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { runConv } from "./conv2d.js";
import { convSegments } from "./segments.js";
import { type ConvShape, convFields, convVariants } from "./variants.js";

export { type ConvChoice, selectConv } from "./select.js";
export { type StripWindow, stripWindow } from "./strip.wgsl.js";
export { type ConvShape, type ConvVariant, convFields, convVariants } from "./variants.js";

export const conv2d: OperationEntry<"conv2d", Conv2dProblem<DeviceMemory>, ConvShape> = {
  operation: "conv2d",
  supports: [{ dtype: floatTypes, activation: true }],
  run: runConv,
  segments: convSegments,
  variants: { rows: convVariants, fields: convFields },
};
