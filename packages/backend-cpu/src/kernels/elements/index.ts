export { type Elements, elementsOf, type StoredElements } from "./elements.js";
export { narrowToHalves, widenHalves } from "./half.js";
export {
  byComputedType,
  byFloatType,
  type ComputedType,
  type ElementFormat,
  elementFormats,
  type FormType,
  formOf,
  type LaneType,
} from "./types.js";
