export { arcFunctions } from "./arcs.wgsl.js";
export { elementwise, inputLayouts, type OutputType, type Source, vectorBytes } from "./elementwise.wgsl.js";
export { magnitudeFunction } from "./magnitude.wgsl.js";
export { mathFunctions } from "./math.wgsl.js";
export type { FunctionText, MathFunctionName } from "./math-function.js";
export { pairFunctions } from "./pairs.wgsl.js";
export { allAligned, axisTable, workgroupsFor } from "./select.js";
export { turnFunctions } from "./turns.wgsl.js";
