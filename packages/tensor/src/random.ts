import type { ComputeBackend, FloatType } from "@backplane/core";
import { type Tensor, wrap } from "./tensor.js";
import { placeOf, undoneOnFailure, Value } from "./value.js";
import { checkShape, type Shape } from "./view/shape.js";

/**
 * A sequence of random numbers: the one of core's `random` for a seed, from an offset on that counts up. Two with the
 * same seed and offset give the same numbers, on every backend (`normal`: within its bounds).
 */
export class Random {
  readonly seed: number;
  /** Numbers taken so far. Set it to go on where another sequence was. */
  offset: number;

  constructor(seed: number, offset = 0) {
    this.seed = seed;
    this.offset = offset;
  }

  /** Numbers from 0 up to but without 1. */
  uniform(backend: ComputeBackend, shape: Shape, dtype: FloatType = "f32"): Tensor {
    return this.#draw("uniform", backend, shape, dtype, {});
  }

  /** Numbers of the normal distribution. */
  normal(
    backend: ComputeBackend,
    shape: Shape,
    {
      mean = 0,
      deviation = 1,
      dtype = "f32",
    }: { readonly mean?: number; readonly deviation?: number; readonly dtype?: FloatType } = {},
  ): Tensor {
    return this.#draw("normal", backend, shape, dtype, { mean, deviation });
  }

  /** 1 with a probability, else 0, of u8. */
  bernoulli(backend: ComputeBackend, shape: Shape, probability: number): Tensor {
    return this.#draw("bernoulli", backend, shape, "u8", { probability });
  }

  #draw(
    kind: "uniform" | "normal" | "bernoulli",
    backend: ComputeBackend,
    shape: Shape,
    dtype: FloatType | "u8",
    options: { readonly mean?: number; readonly deviation?: number; readonly probability?: number },
  ): Tensor {
    const { seed, offset } = this;
    const value = undoneOnFailure(() => {
      const made = Value.allocate(backend, dtype, checkShape(kind, shape));
      backend.random({ kind, count: made.size, output: placeOf(made), seed, offset, dtype, ...options });
      return made;
    });
    // Whole blocks of four: the pairs of normal numbers begin at even places.
    this.offset += 4 * Math.ceil(value.size / 4);
    return wrap(value);
  }
}
