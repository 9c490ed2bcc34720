export { gemmKernel, runGemm } from "./gemm.js";
export { type GemmChoice, selectGemm } from "./select.js";
export type { GemmShape } from "./shape.js";
export { type StoredOperand, storedOperand } from "./stored.js";
export { type GemmVariant, gemmVariants, splittingDetails } from "./variants.js";
