export {
  alongColumns,
  alongLines,
  loadSums,
  panelOf,
  panelPiece,
  panelTypes,
  storeUpTo,
} from "./panels.wasm.js";
export {
  blockElements,
  cachedElements,
  chunkElements,
  enoughChunks,
  planRows,
  type RowsPlan,
} from "./plan.js";
export { lanesBelow, type PieceLocals, rowPiece } from "./rows.wasm.js";
export { panelColumns, planSlabs, type SlabsPlan } from "./slabs.js";
export { slabTypes, slabWork } from "./slabs.wasm.js";
