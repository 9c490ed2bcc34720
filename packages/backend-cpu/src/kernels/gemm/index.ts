export { planEpilogue } from "./epilogue.js";
export { gemm } from "./gemm.js";
export { type GemmVariant, gemmVariants } from "./variants.js";
