export { elementsPerChunk, evenParts } from "./chunks.js";
export { mapVectors, type Stream } from "./map.js";
export { Odometer, type WalkedAxis } from "./odometer.js";
