import { type AttentionGradientProblem, floatTypes, maskTypes } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { runAttentionGradient } from "./gradient.js";
import { attentionGradientSegments } from "./segments.js";
import { type GradientShape, gradientFields, gradientVariants } from "./variants.js";

export const attentionGradient: OperationEntry<
  "attentionGradient",
  AttentionGradientProblem<DeviceMemory>,
  GradientShape
> = {
  operation: "attentionGradient",
  supports: [{ dtype: floatTypes, mask: true, maskDtype: maskTypes, window: true }],
  run: runAttentionGradient,
  segments: attentionGradientSegments,
  variants: { rows: gradientVariants, fields: gradientFields },
};
