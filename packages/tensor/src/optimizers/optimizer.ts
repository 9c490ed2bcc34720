import { zeros } from "../creation.js";
import { refuse } from "../errors.js";
import { withoutRecording } from "../recorder.js";
import { scope } from "../scope.js";
import type { Tensor } from "../tensor.js";
import type { Schedule } from "./schedules.js";
import { checkGradient, type UpdateFormula, update } from "./update.js";

/** Changes the parameters of a model by their gradients, each by one fused operation. */
export abstract class Optimizer implements Disposable {
  readonly parameters: readonly Tensor[];
  /** A number, or a function of the step. */
  rate: number | Schedule;
  /** Steps done so far. */
  steps = 0;
  readonly #formula: UpdateFormula;
  readonly #states: readonly (readonly Tensor[])[];
  readonly #stateNames: readonly string[];
  #sums: Tensor[] | undefined;

  constructor(
    parameters: Iterable<Tensor>,
    rate: number | Schedule,
    formula: UpdateFormula,
    stateNames: readonly string[],
  ) {
    this.parameters = [...parameters];
    this.rate = rate;
    this.#formula = formula;
    this.#stateNames = stateNames;
    // Small differences would be lost in f16, so that states are f32.
    this.#states = this.parameters.map(({ backend, shape }) =>
      stateNames.map(() => zeros(backend, shape).keep()),
    );
  }

  /** Adds gradients to those of the next step, each multiplied by a number: 1 / n for the mean of n parts of a batch. */
  accumulate(gradients: readonly Tensor[], factor = 1): void {
    this.#checkCount("accumulate", gradients);
    const before = this.#sums;
    this.#sums = withoutRecording(() =>
      gradients.map((gradient, i) =>
        scope(() => {
          const scaled = gradient.mul(factor);
          return (before === undefined ? scaled : before[i]!.add(scaled)).compute();
        }).keep(),
      ),
    );
    for (const tensor of before ?? []) tensor.dispose();
  }

  /** Does a step with these gradients, in the order of the parameters, and with those accumulated before. */
  step(gradients?: readonly Tensor[]): void {
    if (gradients !== undefined) this.#checkCount("step", gradients);
    else if (this.#sums === undefined)
      refuse(
        "step",
        "gradients",
        "are missing; allowed: those of each parameter, unless some were accumulated",
      );
    if (this.#sums !== undefined && gradients !== undefined) this.accumulate(gradients);
    const used = this.#sums ?? gradients!;
    // Before anything has changed.
    for (const [i, parameter] of this.parameters.entries()) checkGradient(parameter, used[i]!, i);
    const rate = typeof this.rate === "number" ? this.rate : this.rate(this.steps);
    const numbers = this.numbers(rate, this.steps + 1);
    for (const [i, parameter] of this.parameters.entries())
      update(this.#formula, parameter, used[i]!, this.#states[i]!, numbers);
    this.steps++;
    for (const tensor of this.#sums ?? []) tensor.dispose();
    this.#sums = undefined;
  }

  /** What must be saved besides the parameters and `steps` to go on later to the same bits: by name, such as "0.mean". */
  states(): Map<string, Tensor> {
    const named = this.#states.flatMap((states, i) =>
      states.map((state, j) => [`${i}.${this.#stateNames[j]}`, state] as const),
    );
    return new Map(named);
  }

  /** Frees the states, and no parameters. */
  dispose(): void {
    for (const state of this.#states.flat()) state.dispose();
    for (const tensor of this.#sums ?? []) tensor.dispose();
    this.#sums = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** The numbers of the formula for a step, counted from 1. */
  protected abstract numbers(rate: number, step: number): readonly number[];

  #checkCount(operation: string, gradients: readonly Tensor[]): void {
    if (gradients.length !== this.parameters.length)
      refuse(
        operation,
        "gradients",
        `are ${gradients.length}; allowed: ${this.parameters.length}, one for each parameter`,
      );
  }
}
