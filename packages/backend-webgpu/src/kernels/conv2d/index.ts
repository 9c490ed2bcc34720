import type { Conv2dProblem } from "@backplane/core";
import type { KernelDefinition } from "../../context.js";
import type { DeviceMemory } from "../../memory.js";
import { convKernel } from "./conv2d.js";

export { convKernel, runConv } from "./conv2d.js";
export { selectConv } from "./select.js";
export { type ConvShape, type ConvVariant, convVariants } from "./variants.js";

export const conv2d: KernelDefinition<Conv2dProblem<DeviceMemory>> = convKernel();
