import type { Mode } from "./options.js";

/** Steps that one backend computes before the next takes over. */
export interface Stretch {
  readonly backend: string;
  readonly steps: number;
}

/**
 * Returns which backend computes which steps. In swap mode WebGPU takes over in the middle of the first epoch
 * (or of all steps, if there are fewer) and hands back after a third of all steps, or sooner, after `mostOnWebGpu`.
 */
export function planStretches(
  mode: Mode,
  steps: { readonly perEpoch: number; readonly total: number },
  mostOnWebGpu: number,
): Stretch[] {
  if (mode !== "swap") return [{ backend: mode, steps: steps.total }];
  const before = Math.floor(Math.min(steps.perEpoch, steps.total) / 2);
  const between = Math.min(Math.ceil(steps.total / 3), mostOnWebGpu);
  return [
    { backend: "cpu", steps: before },
    { backend: "webgpu", steps: between },
    { backend: "cpu", steps: steps.total - before - between },
  ].filter((stretch) => stretch.steps > 0);
}

/** Leaves out the first steps, which were done before. */
export function withoutFirst(plan: readonly Stretch[], done: number): Stretch[] {
  let left = done;
  return plan.flatMap(({ backend, steps }) => {
    const skipped = Math.min(left, steps);
    left -= skipped;
    return steps > skipped ? [{ backend, steps: steps - skipped }] : [];
  });
}

/** Leaves out all steps but the first ones. */
export function firstOf(plan: readonly Stretch[], most: number): Stretch[] {
  let left = most;
  return plan.flatMap(({ backend, steps }) => {
    const taken = Math.min(left, steps);
    left -= taken;
    return taken > 0 ? [{ backend, steps: taken }] : [];
  });
}
