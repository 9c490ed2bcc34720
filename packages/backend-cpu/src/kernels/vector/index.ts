export { elementsPerChunk, evenParts, wholeLines } from "./chunks.js";
export { sumOfLanes } from "./lanes.js";
export { mapToVectors, mapVectors, type Stream } from "./map.js";
export { Odometer, type WalkedAxis } from "./odometer.js";
export { type ChunkRows, type RowChunks, type RowParameters, rowChunks, rowsOfChunk } from "./rows.js";
