import { type AttentionProblem, floatTypes, maskTypes } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { matrixUnits } from "../units.js";
import { runAttention } from "./attention.js";
import { attentionSegments } from "./segments.js";
import { type AttentionShape, attentionFields, attentionVariants } from "./variants.js";

export { steps } from "./attention.wgsl.js";
export {
  type Hiding,
  hidingBindings,
  hidingFunctions,
  hidingName,
  hidingOf,
  hidingParameters,
  hidingValues,
  maskedFunction,
} from "./hiding.wgsl.js";
export { operandType } from "./matrix-stage.wgsl.js";
export { gatherMask, maskOf } from "./segments.js";
export { type AttentionChoice, selectAttention } from "./select.js";
export { fetchedRegisters, operandsStage, type Stage, valuesStage } from "./stage.wgsl.js";
export {
  type AttentionTile,
  attentionBytes,
  attentionThreads,
  SHARE,
  scoreTile,
  stagePartQuads,
  stageParts,
  valueTile,
  WEIGHT_KEYS,
} from "./tile.js";
export { type AttentionShape, type AttentionVariant, attentionVariants, outputColumns } from "./variants.js";
export { halvesFunctions, weightFunction } from "./weights.wgsl.js";

export const attention: OperationEntry<"attention", AttentionProblem<DeviceMemory>, AttentionShape> = {
  operation: "attention",
  supports: [{ dtype: floatTypes, mask: true, maskDtype: maskTypes, window: true, logSumExp: true }],
  run: runAttention,
  segments: attentionSegments,
  variants: { rows: attentionVariants, fields: attentionFields },
  async load({ subgroupMatrices }) {
    if (subgroupMatrices.length > 0) await matrixUnits.load();
  },
};
