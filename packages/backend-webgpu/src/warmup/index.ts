/** Kernels run without a device, to see what they would need. */
export type { WarmupOptions, WarmupReport } from "./report.js";
export { PlanDriver, type ProblemListener, prepareAll, rehearse } from "./warmup.js";
