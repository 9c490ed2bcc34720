/** How kernels are written. */
export { type ComputedType, type ElementLayout, floatLayouts, layouts } from "./layouts.js";
export {
  type ElementType,
  IMMEDIATE_FEATURE,
  input,
  memoized,
  output,
  type ParameterSpace,
  type ParameterType,
  type Program,
  parameterSpace,
  program,
  type Storage,
  sourceIn,
} from "./program.js";
export { halfFunctions, linearBuiltins, lines, WORKGROUP_SIZE, wgsl, workgroupIndex } from "./wgsl.js";
