export { attentionKernel, runAttention } from "./attention.js";
export { type AttentionChoice, selectAttention } from "./select.js";
export { type AttentionShape, type AttentionVariant, attentionVariants } from "./variants.js";
