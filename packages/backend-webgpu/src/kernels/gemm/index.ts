import { floatTypes, type GemmProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { matrixUnits } from "../units.js";
import { runGemm } from "./gemm.js";
import { gemmSegments } from "./segments.js";
import { type GemmShape, gemmFields } from "./shape.js";
import { gemmVariants, splittingDetails } from "./variants.js";

export { runGemm } from "./gemm.js";
export { type MatrixTile, matrixTileName } from "./matrix-tile.js";
export { runMixed } from "./segments.js";
export { type GemmChoice, selectGemm } from "./select.js";
export type { GemmShape } from "./shape.js";
export { SHORTEST as SHORTEST_SPLIT } from "./split/split-tile.js";
export { type Block, wideBinding, wideParameters, wideText } from "./split/wide.wgsl.js";
export { canSplit, type GemmVariant, gemmVariants, splitTile } from "./variants.js";

export const gemm: OperationEntry<"gemm", GemmProblem<DeviceMemory>, GemmShape> = {
  operation: "gemm",
  alike: ["batchedGemm"],
  supports: [{ dtype: floatTypes, bias: true, activation: true }],
  run: runGemm,
  segments: gemmSegments,
  variants: {
    rows: gemmVariants,
    fields: gemmFields,
    repeatable: (problem) => ({ ...problem, alpha: 1, beta: problem.beta === 0 ? 0 : 0.5 }),
  },
  details: splittingDetails,
  async load({ subgroupMatrices }) {
    if (subgroupMatrices.length > 0) await matrixUnits.load();
  },
};
