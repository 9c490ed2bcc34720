import type { FloatType, Numerics, RandomProblem, RandomType } from "@backplane/core";
import { floatFormats, type ReferenceMemory } from "../../elements.js";
import { normalPair } from "../../functions.js";
import { epsilon, storage, type Tolerance, underflow } from "../../tolerance.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";
import { words } from "./philox.js";

type Problem = RandomProblem<ReferenceMemory>;

/** Everything that elements depend on but their words. */
export type Distribution = Pick<Problem, "kind" | "dtype" | "mean" | "deviation" | "threshold">;

/** Bits that uniform numbers have. */
export const uniformBits: Readonly<Record<FloatType, number>> = {
  f32: Math.log2(floatFormats.f32.exactUpTo),
  f16: Math.log2(floatFormats.f16.exactUpTo),
};

/**
 * Emits the elements at the words from `skip` on. The magnitude of an element is that of deviation z; elements of
 * other kinds than normal are exact.
 */
export function elements(
  given: Distribution,
  all: Uint32Array,
  skip: number,
  count: number,
  emit: Emit,
): void {
  const { kind, dtype, mean, deviation, threshold } = given;
  const bits = uniformBits[dtype as FloatType];
  const element = {
    bits: (at: number) => all[at]!,
    uniform: (at: number) => Math.floor(all[at]! / 2 ** (32 - bits)) / 2 ** bits,
    normal: (at: number) => deviation * normalPair(all[at & ~1]!, all[at | 1]!)[at & 1]!,
    bernoulli: (at: number) => (all[at]! < threshold ? 1 : 0),
  }[kind];
  for (let i = 0; i < count; i++) {
    const value = element(skip + i);
    if (kind === "normal") emit(i, mean + value, Math.abs(value));
    else emit(i, value, 0);
  }
}

/**
 * Units of epsilon that z may be off by: 6 of the logarithm, of which the root keeps half (3 for its rounded
 * argument, which counts up to three times close to 1, and 3 for itself), 4.5 of the root (WGSL makes it a division by
 * an inverse root), 5.5 of the sine (1.5 for its argument, whose multiple of pi/2 is exact), and 3 for products.
 */
const normalUnits = 16;

/** Then a product with the deviation and a sum with the mean. */
export function randomTolerance(kind: Problem["kind"], dtype: RandomType, numerics: Numerics): Tolerance {
  if (kind !== "normal") return () => 0;
  const small = underflow(2, numerics);
  return (value, magnitude) =>
    epsilon * ((normalUnits + 1) * magnitude + Math.abs(value)) +
    small +
    storage(dtype as FloatType, value, numerics);
}

export const evaluate: Evaluate<Problem> = (problem, memory, numerics) => {
  const { kind, dtype, skip, count, output } = problem;
  const tolerance = numerics && randomTolerance(kind, dtype, numerics);
  elements(problem, words(problem, count), skip, count, emitting(memory.write(output, dtype), tolerance));
};
