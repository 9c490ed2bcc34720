/** Measures how long kernels take on the device. `profiler.js` is loaded when it is first used, and so is not exported here. */
export { Profiling } from "./profiling.js";
