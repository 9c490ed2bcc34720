import type { AttentionProblem } from "@backplane/core";
import type { KernelDefinition } from "../../context.js";
import type { DeviceMemory } from "../../memory.js";
import { attentionKernel } from "./attention.js";

export { attentionKernel, runAttention } from "./attention.js";
export { type AttentionChoice, selectAttention } from "./select.js";
export { type AttentionShape, type AttentionVariant, attentionVariants } from "./variants.js";

export const attention: KernelDefinition<AttentionProblem<DeviceMemory>> = attentionKernel();
