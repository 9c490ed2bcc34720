/** Divides problems whose operands do not fit into bindings; the divisions themselves are with the operations. */
export { kernelFits, placeholder } from "./fit.js";
export { type MoveAxis, move, storeFarRounded } from "./move.js";
export { middleOf, scratchBytes, sliceOf, windowBytes, windowOf } from "./regions.js";
export {
  indivisible,
  PARTIAL_SUM_BYTES,
  type Run,
  type Segmentation,
  type SegmentTools,
  segmented,
} from "./segmented.js";
export { linePiece, type SlabPieces, slabPieces } from "./slab.js";
