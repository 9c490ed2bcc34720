export { SIDE, SUBGROUP, UNIT } from "./matrix-units.js";
export { operandText, type QuadAccess, quadAccess } from "./operands.wgsl.js";
export {
  accumulators,
  columnAt,
  leftTile,
  type OuterProduct,
  outerProduct,
  productSource,
  rightTile,
  rowAt,
  type Stage,
  storedResults,
  tileConstants,
  tileInBands,
  tilePlace,
} from "./product.wgsl.js";
export { matrixStage } from "./stage.wgsl.js";
export {
  hasRoomForTile,
  type ProductTile,
  productTiles,
  stagedBytes,
  stagedPitch,
  tileBytes,
  tileName,
  tileThreads,
} from "./tile.js";
