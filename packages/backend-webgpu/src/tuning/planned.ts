import type { ComputeBackend, DriverBackend, KnownOperations } from "@backplane/core";
import type { DeviceMemory } from "../runtime/index.js";
import { PlanDriver, type PlanMeans, rehearse } from "../warmup/warmup.js";
import { checkTuneOptions } from "./check-options.js";
import { openTuningDevice, type TuningDeviceOptions } from "./device.js";
import { TaskCollector } from "./rehearsal.js";
import type { TuneOptions } from "./report.js";
import { assertNoProfile } from "./time.js";
import { Abortion, type Findings, Tuner, type TuningMeans } from "./tune.js";

/** What `tune` works with, as it was when it was called. */
export interface PlannedTuning {
  readonly backend: DriverBackend<DeviceMemory>;
  readonly known: KnownOperations;
  readonly planMeans: PlanMeans;
  readonly device: Omit<TuningDeviceOptions, "plan">;
  readonly options: TuneOptions;
  readonly means: TuningMeans;
}

/** Finds the fastest variants for the calls of a plan, and uses them from then on. */
export async function tunePlanned(
  { backend, known, planMeans, device: deviceOptions, options, means }: PlannedTuning,
  plan: (backend: ComputeBackend) => unknown,
): Promise<Findings> {
  checkTuneOptions(options);
  assertNoProfile(deviceOptions.session.profiling);
  const { capabilities } = backend;
  const device = openTuningDevice({
    ...deviceOptions,
    plan: (features) => new PlanDriver({ ...planMeans, features }, capabilities),
  });
  const tasks = new TaskCollector(device.features, device.shapes);
  const planned = new PlanDriver({ ...planMeans, features: tasks.features }, capabilities, (name, problem) =>
    tasks.add(name, problem),
  );
  await rehearse(planned, backend, known, plan);
  backend.assertOpen("tune");
  try {
    const findings = await new Tuner(device, options, means).run(tasks);
    backend.assertOpen("tune");
    device.use(findings.entries);
    return findings;
  } catch (error) {
    throw error instanceof Abortion ? error.reason : error;
  }
}
