import {
  elementTypes,
  type FloatType,
  type IntegerType,
  identityOf,
  isTruthReduction,
  type NumberReduceKind,
  type ReducedType,
  type ReduceProblem,
  type TruthReduceKind,
} from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { integerFunctions } from "../../functions.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";
import { offsets } from "../places.js";
import { reduction } from "./tolerance.js";

export type ReduceShape = Pick<ReduceProblem<unknown>, "dtype" | "kind" | "kept" | "reduced">;

/**
 * One element per place along the kept axes. The magnitude of an element is sum |input| for sum and
 * mean, what `logSumExp` says, and |value| otherwise. Sums and products of integers wrap around.
 */
export function reduce(shape: ReduceShape, input: Float64Array, emit: Emit): void {
  const { dtype, kind } = shape;
  if (kind === "logSumExp") {
    logSumExp(shape, input, emit);
    return;
  }
  const combine = combinerOf(kind, dtype);
  const places = offsets(shape.reduced);
  let index = 0;
  for (const start of offsets(shape.kept)) {
    let value = kind === "mean" ? 0 : identityOf(kind, dtype);
    let magnitude = 0;
    for (const place of places) {
      const x = input[start + place]!;
      value = combine(value, x);
      magnitude += Math.abs(x);
    }
    if (kind === "mean") value /= places.length;
    emit(index++, value, kind === "sum" || kind === "mean" ? magnitude : Math.abs(value));
  }
}

/** The magnitude is the mean of |x - m| with the weights e^x, where m is the largest x: what errors of e^(x - m) grow with. */
function logSumExp({ kept, reduced }: ReduceShape, input: Float64Array, emit: Emit): void {
  const places = offsets(reduced);
  let index = 0;
  for (const start of offsets(kept)) {
    let largest = Number.NEGATIVE_INFINITY;
    for (const place of places) largest = Math.max(largest, input[start + place]!);
    let [sum, weighted] = [0, 0];
    if (Number.isFinite(largest))
      for (const place of places) {
        const x = input[start + place]! - largest;
        sum += Math.exp(x);
        if (x > Number.NEGATIVE_INFINITY) weighted -= x * Math.exp(x);
      }
    const isNumber = Number.isFinite(largest);
    emit(index++, isNumber ? largest + Math.log(sum) : largest, isNumber ? weighted / sum : 0);
  }
}

type Combine = (a: number, b: number) => number;

/** Kinds that join one element after the other. */
type FoldKind = Exclude<NumberReduceKind, "logSumExp">;

function combinerOf(kind: FoldKind | TruthReduceKind, dtype: ReducedType): Combine {
  if (isTruthReduction(kind)) return truths[kind];
  return elementTypes[dtype].range === undefined
    ? combiners[kind]
    : integerCombiner(kind, dtype as IntegerType);
}

const truths: Readonly<Record<TruthReduceKind, Combine>> = {
  any: (a, b) => (a !== 0 || b !== 0 ? 1 : 0),
  all: (a, b) => (a !== 0 && b !== 0 ? 1 : 0),
};

const combiners: Readonly<Record<FoldKind, Combine>> = {
  sum: (a, b) => a + b,
  mean: (a, b) => a + b,
  max: (a, b) => Math.max(a, b),
  min: (a, b) => Math.min(a, b),
  prod: (a, b) => a * b,
};

function integerCombiner(kind: FoldKind, dtype: IntegerType): Combine {
  const { add, mul, max, min } = integerFunctions[dtype];
  const all: Partial<Record<FoldKind, Combine>> = { sum: add, prod: mul, max, min };
  const combine = all[kind];
  if (combine === undefined) throw new Error(`there is no ${kind} of ${dtype}`);
  return combine;
}

export const evaluate: Evaluate<ReduceProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, kind, input, output, reducedCount } = problem;
  const values = memory.read(input, dtype);
  const isExact = elementTypes[dtype].range !== undefined;
  const tolerance =
    numerics && (isExact ? () => 0 : reduction(kind, reducedCount, dtype as FloatType, numerics));
  reduce(problem, values, emitting(memory.write(output, dtype), tolerance));
};
