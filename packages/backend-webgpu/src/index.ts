/** What both entry points export alike. */
export type { WebGpuOptions } from "./device.js";
export { WebGpuDriver } from "./driver.js";
export { type ForcedVariants, variantNames } from "./kernels/forced.js";
