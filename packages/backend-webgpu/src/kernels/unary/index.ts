export { unaryFunction } from "./functions.wgsl.js";
export { unary } from "./unary.js";
