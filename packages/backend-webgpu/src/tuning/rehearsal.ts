import type { OperationName, OperationProblems } from "@backplane/core";
import type { DeviceFeatures } from "../device/index.js";
import { observeChoices } from "../kernels/index.js";
import type { Program } from "../program/index.js";
import type { DeviceMemory } from "../runtime/index.js";
import type { PlanDriver } from "../warmup/index.js";
import type { TunableShapes } from "./shapes.js";
import type { TunedShape } from "./tuned-shape.js";

/** The problem of any kernel. */
export type AnyProblem = OperationProblems<DeviceMemory>[OperationName];

/** A problem of the caller's, without the memory that it names. */
export interface TuningTask {
  readonly operation: OperationName;
  readonly problem: AnyProblem;
}

/** A choice that kernels make for a problem; a problem may need several. */
export interface ShapeChoice {
  readonly key: string;
  readonly operation: OperationName;
  readonly shape: TunedShape;
  readonly variant: string;
  readonly forced: boolean;
  /** Variants that the device can run and that fit the shape, `variant` among them. */
  readonly possible: readonly string[];
}

/** Features like these, and the choices that are made with them from here on. */
export function observed(
  features: DeviceFeatures,
  shapes: TunableShapes,
): {
  readonly features: DeviceFeatures;
  readonly choices: ShapeChoice[];
} {
  const own = { ...features };
  const choices: ShapeChoice[] = [];
  observeChoices(own, ({ operation, variant, motive, shape, possible }) => {
    const key = shapes.key(operation, shape as object);
    const forced = motive === "forced";
    const plain = shapes.plain(operation, shape as object);
    choices.push({ key, operation, shape: plain, variant, forced, possible: possible() });
  });
  return { features: own, choices };
}

/** Keeps, of many problems, those that need a choice that none before them needed. */
export class TaskCollector {
  readonly tasks: TuningTask[] = [];
  readonly keys: Set<string> = new Set();
  readonly features: DeviceFeatures;
  readonly #choices: ShapeChoice[];

  constructor(features: DeviceFeatures, shapes: TunableShapes) {
    // Earlier tuning would hide the default.
    const { features: own, choices } = observed({ ...features, tuned: undefined }, shapes);
    this.features = own;
    this.#choices = choices;
  }

  /** A problem has been run with `features`. */
  add(operation: OperationName, problem: AnyProblem): void {
    const count = this.keys.size;
    for (const { key, possible } of this.#choices) if (possible.length > 1) this.keys.add(key);
    this.#choices.length = 0;
    if (this.keys.size > count) this.tasks.push({ operation, problem });
  }
}

/** Runs a problem on a driver that computes nothing, and returns the programs that it needs. */
export function programsOf(driver: PlanDriver, { operation, problem }: TuningTask): ReadonlySet<Program> {
  driver.kernels[operation]!.run(problem as never);
  return driver.programs;
}
