export { CompareBackend } from "./backend.js";
export { checkCall } from "./check-call.js";
export type { Finding } from "./finding.js";
export type { CompareOptions } from "./options.js";
export type { CallReplay } from "./replay.js";
export type { CompareReport, Divergence, SkippedCalls } from "./report.js";
