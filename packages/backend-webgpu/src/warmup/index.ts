/** Runs kernels without a device, to learn what they would need. */
export type { WarmupOptions, WarmupReport } from "./report.js";
export { PlanDriver, type ProblemListener, prepareAll, rehearse } from "./warmup.js";
