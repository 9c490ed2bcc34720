/** What only devices with matrix units run; see `units.ts`. */
export * from "./attention/matrix-units.js";
export * from "./gemm/matrix-units.js";
