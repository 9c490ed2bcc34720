import { refuse } from "../errors.js";

/** The learning rate of each step, counted from 0. */
export type Schedule = (step: number) => number;

export interface Decline {
  /** The rate at the start, after warm-up. */
  readonly from: number;
  /** The rate at the end, and from then on. Default: 0. */
  readonly to?: number;
  /** Steps until the end, including warm-up. */
  readonly steps: number;
  /** Steps in which the rate rises evenly to `from`. Default: 0. */
  readonly warmup?: number;
}

function declining(name: string, decline: Decline, shape: (part: number) => number): Schedule {
  const { from, to = 0, steps, warmup = 0 } = decline;
  for (const [argument, value] of Object.entries({ steps, warmup }))
    if (!Number.isSafeInteger(value) || value < 0)
      refuse(name, argument, `is ${value}; allowed: whole numbers from 0`);
  return (step) => {
    if (step < warmup) return (from * (step + 1)) / warmup;
    const part = steps <= warmup ? 1 : Math.min(1, (step - warmup) / (steps - warmup));
    return to + (from - to) * shape(part);
  };
}

/** Falls along half a wave of the cosine: slowly at both ends (I. Loshchilov and F. Hutter, "SGDR", 2017). */
export function cosineSchedule(decline: Decline): Schedule {
  return declining("cosineSchedule", decline, (part) => (1 + Math.cos(Math.PI * part)) / 2);
}

/** Falls evenly. */
export function linearSchedule(decline: Decline): Schedule {
  return declining("linearSchedule", decline, (part) => 1 - part);
}

/** Is multiplied by a factor after every so many steps. */
export function stepSchedule(options: {
  readonly from: number;
  readonly every: number;
  readonly factor: number;
}): Schedule {
  const { from, every, factor } = options;
  if (!Number.isSafeInteger(every) || every < 1)
    refuse("stepSchedule", "every", `is ${every}; allowed: whole numbers from 1`);
  return (step) => from * factor ** Math.floor(step / every);
}
