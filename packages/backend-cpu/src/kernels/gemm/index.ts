export { planEpilogue } from "./epilogue.js";
export { finishRows } from "./finish.js";
export { gemm } from "./gemm.js";
export { blockFunction, spareBytes, type Tile } from "./tile.js";
export { type GemmVariant, gemmVariants } from "./variants.js";
