export { convKernel, runConv } from "./conv2d.js";
export { type ConvChoice, selectConv } from "./select.js";
export { type ConvShape, type ConvVariant, convVariants } from "./variants.js";
