/** A typed assembler for WebAssembly: generator functions of a tile, written in TypeScript. */
export type { Code, ValueType } from "./encoding.js";
export { type Arg, operand, select, type Value } from "./expressions.js";
export { callValue, FunctionBuilder, type FunctionReference, type Label, type Local } from "./function.js";
export { type MemoryImport, ModuleBuilder } from "./module.js";
export { f32, f64, i32 } from "./scalars.js";
export type { VectorFunction } from "./vector-function.js";
export { f32x4, f64x2, i8x16, i16x8, i32x4, i64x2, shuffle32, v128 } from "./vectors.js";
