import type { Tensor } from "../tensor.js";
import { Optimizer } from "./optimizer.js";
import type { Schedule } from "./schedules.js";
import { Formula, type UpdateFormula } from "./update.js";

export interface AdamOptions {
  /** Default: 0.001. */
  readonly rate?: number | Schedule;
  /** How much of the means stays from step to step. Default: 0.9 and 0.999. */
  readonly betas?: readonly [mean: number, square: number];
  /** Default: 1e-8. */
  readonly epsilon?: number;
  /** Default: 0 for Adam, 0.01 for AdamW. */
  readonly weightDecay?: number;
}

/**
 * Adam (D. Kingma and J. Ba, "Adam: a method for stochastic optimization", 2015). In step t, with the gradient g, to which
 * Adam has added weightDecay p:
 *
 *   m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2
 *   p <- p - rate m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon)
 */
export class Adam extends Optimizer {
  readonly #betas: readonly [number, number];
  readonly #epsilon: number;
  readonly #decay: number;
  readonly #isDecoupled: boolean;

  constructor(parameters: Iterable<Tensor>, options: AdamOptions = {}, isDecoupled = false) {
    const { rate = 1e-3, betas = [0.9, 0.999], epsilon = 1e-8, weightDecay = 0 } = options;
    super(parameters, rate, formulaOf(isDecoupled), ["mean", "square"]);
    this.#betas = betas;
    this.#epsilon = epsilon;
    this.#decay = weightDecay;
    this.#isDecoupled = isDecoupled;
  }

  protected numbers(rate: number, step: number): readonly number[] {
    const [first, second] = this.#betas;
    return [
      rate / (1 - first ** step),
      this.#isDecoupled ? 1 - rate * this.#decay : this.#decay,
      first,
      1 - first,
      second,
      1 - second,
      1 / (1 - second ** step),
      this.#epsilon,
    ];
  }
}

/** Adam whose parameters shrink by themselves, p <- p - rate weightDecay p, beside the step (I. Loshchilov and F. Hutter, 2019). */
export class AdamW extends Adam {
  constructor(parameters: Iterable<Tensor>, options: AdamOptions = {}) {
    super(parameters, { weightDecay: 0.01, ...options }, true);
  }
}

function formulaOf(isDecoupled: boolean): UpdateFormula {
  const formula = new Formula();
  const [p, g, m, v] = [0, 1, 2, 3].map((i) => formula.input(i)) as [number, number, number, number];
  const [rate, decay, b1, c1, b2, c2, correction, epsilon] = Array.from({ length: 8 }, (_, i) =>
    formula.parameter(i),
  ) as [...[number, number, number, number, number, number, number, number]];
  const decayed = formula.binary("mul", decay, p);
  const slope = isDecoupled ? g : formula.binary("add", g, decayed);
  const mean = formula.binary("add", formula.binary("mul", b1, m), formula.binary("mul", c1, slope));
  const squared = formula.binary("mul", c2, formula.binary("mul", slope, slope));
  const square = formula.binary("add", formula.binary("mul", b2, v), squared);
  const deviation = formula.unary("sqrt", formula.binary("mul", square, correction));
  const step = formula.binary(
    "div",
    formula.binary("mul", rate, mean),
    formula.binary("add", deviation, epsilon),
  );
  const next = formula.binary("sub", isDecoupled ? decayed : p, step);
  return { nodes: formula.nodes, results: [next, mean, square] };
}
