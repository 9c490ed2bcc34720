/**
 * `@backplane/backend-cpu/kernel`: everything needed to write a kernel for an operation of your own. A kernel
 * is a function that emits WebAssembly; `defineKernel` shows how. Pass it to `cpu({ kernels: [...] })`.
 */
export {
  address,
  type CpuMemory,
  type CpuOperation,
  defineKernel,
  type Features,
  type Kernel,
  type KernelContext,
  type KernelDefinition,
  type Launch,
  type OwnCpuKernel,
  type ParameterTypes,
  type PlanContext,
} from "./kernels/kernel.js";
export {
  type Arg,
  type FunctionBuilder,
  f32,
  f32x4,
  i32,
  i32x4,
  type Local,
  select,
  type Value,
  v128,
} from "./wasm/index.js";
