import type { ComputeBackend } from "@backplane/core";
import {
  AdamW,
  clipByNorm,
  cosineSchedule,
  scope,
  type Tensor,
  tensor,
  valueAndGrad,
} from "@backplane/tensor";
import { Random } from "../random.js";
import type { Shape } from "../shape.js";
import { type Adaptation, LanguageModel } from "./language-model.js";
import type { Parameters } from "./parameters.js";

export interface TrainingOptions {
  readonly seed: number;
  /** Steps of the whole training, over which the learning rate falls. */
  readonly steps: number;
  /** Texts of a step. */
  readonly batch: number;
  /** Tokens of a text. */
  readonly length: number;
  readonly rate: number;
}

/** The largest norm of all gradients together. */
const LARGEST_NORM = 1;

/** A part of all steps in which the learning rate rises. */
const WARMUP = 0.05;

/** Trains parameters, or what adapts them, to predict the next token. */
export class Trainer implements Disposable {
  readonly options: TrainingOptions;
  readonly optimizer: AdamW;
  readonly #backend: ComputeBackend;
  readonly #model: LanguageModel;
  readonly #parameters: Parameters;
  readonly #adaptation: Adaptation | undefined;
  readonly #differentiate: (
    tokens: Tensor,
    targets: Tensor,
  ) => { readonly value: Tensor; readonly gradients: Tensor[] };

  /** @param trained those of the parameters, or of the adaptation, that change */
  constructor(
    backend: ComputeBackend,
    shape: Shape,
    parameters: Parameters,
    trained: readonly Tensor[],
    options: TrainingOptions,
    adaptation?: Adaptation,
  ) {
    this.options = options;
    this.#backend = backend;
    this.#parameters = parameters;
    this.#adaptation = adaptation;
    this.#model = new LanguageModel(backend, shape, options.length);
    const { rate: from, steps } = options;
    const warmup = Math.ceil(WARMUP * steps);
    this.optimizer = new AdamW(trained, { rate: cosineSchedule({ from, to: from / 10, steps, warmup }) });
    this.#differentiate = valueAndGrad(
      (tokens: Tensor, targets: Tensor) => this.#model.loss(parameters, tokens, targets, adaptation),
      { at: trained },
    );
  }

  /** Enqueues a step. Returns its loss, which the caller disposes of. */
  step(text: ArrayLike<number>): Tensor {
    return scope(() => {
      // Of the seed and the step alone, so that a training that is continued sees what it would have seen.
      const random = new Random(this.options.seed + this.optimizer.steps);
      const { batch } = this.options;
      const starts = Array.from({ length: batch }, () => this.#anyStart(text, random));
      const { value, gradients } = this.#differentiate(...this.#texts(text, starts));
      this.optimizer.step(clipByNorm(gradients, LARGEST_NORM).gradients);
      return value;
    });
  }

  /** The mean loss of a text that was not trained on, in parts that follow one another, with the adaptation or without. */
  async heldOutLoss(text: ArrayLike<number>, isAdapted = true): Promise<number> {
    const adaptation = isAdapted ? this.#adaptation : undefined;
    const { batch, length } = this.options;
    const starts: number[] = [];
    for (let start = 0; start + length < text.length; start += length) starts.push(start);
    let sum = 0;
    for (let first = 0; first < starts.length; first += batch) {
      const some = starts.slice(first, first + batch);
      using loss = scope(() => {
        const [tokens, targets] = this.#texts(text, some);
        return this.#model.loss(this.#parameters, tokens, targets, adaptation);
      });
      sum += some.length * (await loss.item());
    }
    return sum / starts.length;
  }

  [Symbol.dispose](): void {
    this.optimizer.dispose();
    this.#model[Symbol.dispose]();
  }

  #anyStart(text: ArrayLike<number>, random: Random): number {
    return Math.floor(random.uniform() * (text.length - this.options.length));
  }

  /** Tokens, and what follows each: [texts, length] in i32. */
  #texts(text: ArrayLike<number>, starts: readonly number[]): [tokens: Tensor, targets: Tensor] {
    const { length } = this.options;
    const part = (offset: number) => {
      const values = Int32Array.from(
        { length: starts.length * length },
        (_, i) => text[starts[Math.floor(i / length)]! + (i % length) + offset]!,
      );
      return tensor(this.#backend, values, { shape: [starts.length, length] });
    };
    return [part(0), part(1)];
  }
}
