/** Of `../matrix-units.ts`. */
export { inUnits } from "./in-units.js";
export { matrixProgram } from "./matrices.wgsl.js";
export { enqueueSplit } from "./split/split.js";
