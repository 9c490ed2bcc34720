/** What takes the time of the device. */
export { Profiling } from "./profiler.js";
