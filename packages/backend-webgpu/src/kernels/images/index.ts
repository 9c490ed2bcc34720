/** What operations on images share: how planes are shared out, where windows are, and how gradients are divided. */
export {
  type Blocks,
  blocksFor,
  STRIP,
  spotFunction,
  storeStrip,
  stripsOf,
  WIDE_STRIP,
} from "./blocks.wgsl.js";
export {
  type GradientProblem,
  gradientSegments,
  inputsOf,
  type Range,
  type Rectangle,
  resultsOf,
} from "./gradient-parts.js";
export { type GradientTile, gradientParameters, gradientWriter, isShared } from "./gradients.wgsl.js";
export { PADDED_SIDE, paddedTile, perChannel, pixelOfCopy, valuesToTile } from "./padded.wgsl.js";
export {
  axesOf,
  countedPlaces,
  type SquareWindow,
  squareWindow,
  startOf,
  tapsOf,
  type WindowAxis,
  windowExtents,
} from "./windows.js";
export { countedFunction } from "./windows.wgsl.js";
