import { type FloatType, type ReduceKind, type ReduceProblem, reduceIdentity } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";
import { offsets } from "../places.js";
import { reduction } from "./tolerance.js";

export type ReduceShape = Pick<ReduceProblem<unknown, FloatType>, "kind" | "kept" | "reduced">;

/**
 * One element per place along the kept axes. The magnitude of an element is sum |input| for sum and
 * mean, and |value| otherwise.
 */
export function reduce(shape: ReduceShape, input: Float64Array, emit: Emit): void {
  const { kind } = shape;
  const combine = combiners[kind];
  const places = offsets(shape.reduced);
  let index = 0;
  for (const start of offsets(shape.kept)) {
    let value = kind === "mean" ? 0 : reduceIdentity[kind];
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

const combiners: Readonly<Record<ReduceKind, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  mean: (a, b) => a + b,
  max: (a, b) => Math.max(a, b),
  min: (a, b) => Math.min(a, b),
  prod: (a, b) => a * b,
};

export const evaluate: Evaluate<ReduceProblem<ReferenceMemory, FloatType>> = (problem, memory, numerics) => {
  const { dtype, kind, input, output, reducedCount } = problem;
  const values = memory.read(input, dtype);
  const tolerance = numerics && reduction(kind, reducedCount, dtype, numerics);
  reduce(problem, values, emitting(memory.write(output, dtype), tolerance));
};
