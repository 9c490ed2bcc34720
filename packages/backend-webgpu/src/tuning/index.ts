/** Choices between variants by measurement. */
export { checkedTuning, mergeTuning, TUNING_FORMAT, type TuningData, type TuningEntry } from "./data.js";
export { openTuningDevice, type TuningDevice, type TuningSession } from "./device.js";
export { TaskCollector } from "./rehearsal.js";
export type { TuneOptions } from "./report.js";
export { TunedTable, tableOf } from "./table.js";
export { assertNoProfile } from "./time.js";
export { Abortion, type Findings, Tuner, type TuningMeans } from "./tune.js";
