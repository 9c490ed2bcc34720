/** How kernels are written. */

export { halfFunctions, halfQuad, packQuad, roundedHalfQuad } from "./halves.wgsl.js";
export { type ComputedType, type ElementLayout, floatLayouts, layouts } from "./layouts.js";
export {
  type Dialect,
  type ElementType,
  IMMEDIATE_FEATURE,
  input,
  memoized,
  output,
  PACKING_FEATURE,
  type ParameterSpace,
  type ParameterType,
  type Program,
  parameterSpace,
  program,
  type Storage,
  sourceIn,
} from "./program.js";
export { linearBuiltins, lines, WORKGROUP_SIZE, wgsl, workgroupIndex } from "./wgsl.js";
