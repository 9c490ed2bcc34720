export { convKernel, runConv } from "./conv2d.js";
export { selectConv } from "./select.js";
export { type ConvShape, type ConvVariant, convVariants } from "./variants.js";
