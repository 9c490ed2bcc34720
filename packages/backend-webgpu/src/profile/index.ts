/** Measures how long kernels take on the device. */
export { Profiling } from "./profiler.js";
