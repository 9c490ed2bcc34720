export { reduce } from "./reduce.js";
export { type ReduceLoads, reduceVariants } from "./select.js";
