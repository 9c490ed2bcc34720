export { TraceBackend } from "./backend.js";
export type { TraceSink } from "./chunk-queue.js";
export type { TraceSource } from "./decoder.js";
export type { Difference } from "./element-types.js";
export { type ReplayDifference, type ReplayOptions, replayTrace, type TraceReport } from "./replay.js";
