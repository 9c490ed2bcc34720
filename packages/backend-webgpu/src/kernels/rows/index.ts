export { type ApplyText, applyMain, LINES_APPLIED, resultType } from "./apply.wgsl.js";
export { divideRows, type RowPasses } from "./pieces.js";
export {
  type ApplyPlan,
  type Extents,
  groupsFor,
  leastSegment,
  planApply,
  planJoin,
  planRegisters,
  planStatistics,
  type RegisterPlan,
  type SegmentedRows,
  type StatisticsPlan,
  sharesWords,
  vectorFor,
} from "./select.js";
export {
  across,
  components,
  each,
  firstOfRow,
  larger,
  loadFunction,
  placeInGroup,
  placeInRow,
  placeInSegment,
  plus,
  sharedResult,
  sharing,
  storageOf,
  storeFunction,
  storeWord,
  type Type,
  tree,
  typeOf,
} from "./text.wgsl.js";
export type { Along, ApplyForm, LaneCount, LoadTile, Vector } from "./tile.js";
