import { refuse } from "../errors.js";
import type { Tensor } from "../tensor.js";
import { Optimizer } from "./optimizer.js";
import type { Schedule } from "./schedules.js";
import { Formula, type UpdateFormula } from "./update.js";

export interface SgdOptions {
  readonly rate: number | Schedule;
  /** Default: 0. */
  readonly momentum?: number;
  /** Whether a step looks ahead along the velocity. Only with momentum. */
  readonly nesterov?: boolean;
  /** Is multiplied by the parameter and added to the gradient. Default: 0. */
  readonly weightDecay?: number;
}

/**
 * Gradient descent: p <- p - rate (g + weightDecay p); with momentum, v <- momentum v + g and p <- p - rate v, or by
 * Nesterov p <- p - rate (g + momentum v) (I. Sutskever et al., "On the importance of initialization and momentum in deep
 * learning", 2013, in the form that PyTorch has).
 */
export class Sgd extends Optimizer {
  readonly #momentum: number;
  readonly #weightDecay: number;

  constructor(parameters: Iterable<Tensor>, options: SgdOptions) {
    const { rate, momentum = 0, nesterov = false, weightDecay = 0 } = options;
    if (nesterov && momentum === 0)
      refuse("Sgd", "nesterov", "is true without momentum; allowed: with momentum only");
    super(parameters, rate, formulaOf(momentum !== 0, nesterov), momentum === 0 ? [] : ["velocity"]);
    this.#momentum = momentum;
    this.#weightDecay = weightDecay;
  }

  protected numbers(rate: number): readonly number[] {
    return [rate, this.#weightDecay, this.#momentum];
  }
}

function formulaOf(hasMomentum: boolean, nesterov: boolean): UpdateFormula {
  const formula = new Formula();
  const [p, g] = [formula.input(0), formula.input(1)];
  const [rate, decay, momentum] = [formula.parameter(0), formula.parameter(1), formula.parameter(2)];
  const slope = formula.binary("add", g, formula.binary("mul", decay, p));
  const stepBy = (direction: number): number =>
    formula.binary("sub", p, formula.binary("mul", rate, direction));
  if (!hasMomentum) return { nodes: formula.nodes, results: [stepBy(slope)] };
  const velocity = formula.binary("add", formula.binary("mul", momentum, formula.input(2)), slope);
  const ahead = nesterov ? formula.binary("add", slope, formula.binary("mul", momentum, velocity)) : velocity;
  return { nodes: formula.nodes, results: [stepBy(ahead), velocity] };
}
