export { type Elements, elementsOf, type StoredElements, storedElementsOf } from "./elements.js";
export { narrowToHalves, widenHalves } from "./half.js";
export {
  byComputedType,
  byFloatType,
  type ComputedType,
  type ElementFormat,
  elementFormats,
  type LaneType,
} from "./types.js";
