/** Choices between variants by measurement. `planned.js` is loaded when it is first used, and so is not exported here. */
export { checkedTuning } from "./check.js";
export { mergeTuning, TUNING_FORMAT, type TuningData, type TuningEntry } from "./data.js";
export type { TuningDevice, TuningDeviceOptions, TuningSession } from "./device.js";
export type { TuneOptions } from "./report.js";
export { TunableShapes } from "./shapes.js";
export { TunedTable, tableOf } from "./table.js";
export type { TuningMeans } from "./tune.js";
