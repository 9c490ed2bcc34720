import {
  elementTypes,
  type FloatType,
  type IntegerType,
  identityOf,
  type Numerics,
  type ScanKind,
  type ScanProblem,
} from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { integerFunctions } from "../../functions.js";
import type { Tolerance } from "../../tolerance.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";
import { reduction } from "../reduce/tolerance.js";

export type ScanShape = Pick<
  ScanProblem<unknown>,
  "dtype" | "kind" | "outer" | "length" | "inner" | "exclusive" | "reverse"
>;

type Combine = (a: number, b: number) => number;

const floats: Readonly<Record<ScanKind, Combine>> = {
  ...{ sum: (a, b) => a + b, prod: (a, b) => a * b },
  ...{ max: Math.max, min: Math.min },
};

/** How two elements of the type are combined. */
export function combinerOf(kind: ScanKind, dtype: FloatType | IntegerType): Combine {
  if (elementTypes[dtype].range === undefined) return floats[kind];
  const { add, mul, max, min } = integerFunctions[dtype as IntegerType];
  return { sum: add, prod: mul, max, min }[kind];
}

/**
 * The results of each row from its first element on, or from its last. The magnitude of an element is
 * the sum of |input| so far for sum, and |value| otherwise.
 */
export function scan(shape: ScanShape, input: Float64Array, emit: Emit): void {
  const { dtype, kind, outer, length, inner, exclusive, reverse } = shape;
  const combine = combinerOf(kind, dtype);
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      let value = identityOf(kind, dtype);
      let magnitude = 0;
      for (let step = 0; step < length; step++) {
        const j = reverse ? length - 1 - step : step;
        const at = (o * length + j) * inner + i;
        const size = () => (kind === "sum" ? magnitude : Math.abs(value));
        if (exclusive) emit(at, value, size());
        value = combine(value, input[at]!);
        magnitude += Math.abs(input[at]!);
        if (!exclusive) emit(at, value, size());
      }
    }
}

/** Integers, maxima and minima are exact; a result of n elements rounds n - 1 times, in whatever order. */
export function allowedOf(
  { kind, dtype, length }: Pick<ScanShape, "kind" | "dtype" | "length">,
  numerics: Numerics,
): Tolerance {
  if (elementTypes[dtype].range !== undefined) return () => 0;
  return reduction(kind, length, dtype as FloatType, numerics);
}

export const evaluate: Evaluate<ScanProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, input, output } = problem;
  const tolerance = numerics && allowedOf(problem, numerics);
  scan(problem, memory.read(input, dtype), emitting(memory.write(output, dtype), tolerance));
};
