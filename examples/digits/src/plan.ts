import type { Mode } from "./options.js";

/** Steps that one backend computes before the next takes over. */
export interface Stretch {
  readonly backend: string;
  readonly steps: number;
}

/** The largest number of steps on a WebGPU adapter that is emulated in software: it is there to be seen. */
const softwareSteps = 60;

/**
 * Returns which backend computes which steps. In swap mode WebGPU takes over in the middle of the first epoch
 * (or of all steps, if there are fewer) and hands back after a third of all steps.
 */
export function planStretches(
  mode: Mode,
  steps: { readonly perEpoch: number; readonly total: number },
  webgpuIsSoftware: boolean,
): Stretch[] {
  if (mode !== "swap") return [{ backend: mode, steps: steps.total }];
  const before = Math.floor(Math.min(steps.perEpoch, steps.total) / 2);
  const share = Math.ceil(steps.total / 3);
  const between = webgpuIsSoftware ? Math.min(share, softwareSteps) : share;
  return [
    { backend: "cpu", steps: before },
    { backend: "webgpu", steps: between },
    { backend: "cpu", steps: steps.total - before - between },
  ].filter((stretch) => stretch.steps > 0);
}
