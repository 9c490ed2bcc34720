export { type Elements, elementsOf } from "./elements.js";
export { byFloatType, type ElementFormat, elementFormats } from "./types.js";
