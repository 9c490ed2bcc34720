/**
 * Runs kernels without a device, to learn what they would need. `warmup.js` is loaded when it is first used, and so is
 * not exported here.
 */
export { prepareAll } from "./prepare.js";
export type { WarmupOptions, WarmupReport } from "./report.js";
export type { PlanDriver, PlanMeans, ProblemListener } from "./warmup.js";
