import {
  type ArithmeticKind,
  type BinaryInput,
  type BinaryKind,
  type BinaryProblem,
  elementTypes,
  type FloatType,
  type IntegerType,
  isComparison,
  type Numerics,
} from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { binaryFunctions, comparisons, integerFunctions, logicalFunctions } from "../../functions.js";
import type { Evaluate, FormulaMemory } from "../operation.js";
import { offsets } from "../places.js";
import { binaryTolerance } from "./tolerance.js";

/** Element types that the operation is for. */
export type NumberType = FloatType | IntegerType | "u8";

/** The function of a kind and element type. Throws for a kind that the type lacks. */
export function functionOf(kind: BinaryKind, dtype: NumberType): (a: number, b: number) => number {
  if (isComparison(kind)) return comparisons[kind];
  const ofType: Readonly<Partial<Record<BinaryKind, (a: number, b: number) => number>>> =
    dtype === "u8"
      ? logicalFunctions
      : elementTypes[dtype].range === undefined
        ? binaryFunctions
        : integerFunctions[dtype as IntegerType];
  const apply = ofType[kind];
  if (apply === undefined) throw new Error(`there is no ${kind} of ${dtype}`);
  return apply;
}

/** Comparisons and integers are exact. */
export function toleranceOf(
  kind: BinaryKind,
  dtype: NumberType,
  numerics: Numerics,
): (a: number, b: number, y: number) => number {
  if (isComparison(kind) || elementTypes[dtype].range !== undefined) return () => 0;
  return (a, b, y) => binaryTolerance(kind as ArithmeticKind, a, b, y, dtype as FloatType, numerics);
}

export const evaluate: Evaluate<BinaryProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { kind, dtype } = problem;
  const tolerance = numerics && toleranceOf(kind, dtype, numerics);
  evaluateAs(functionOf(kind, dtype), problem, memory, tolerance);
};

type Operands = Pick<BinaryProblem<ReferenceMemory>, "kind" | "dtype" | "shape" | "n" | "a" | "b" | "output">;

/** Evaluates a function on the operands of a problem. Default tolerance: 0. */
export function evaluateAs(
  apply: (a: number, b: number) => number,
  problem: Operands,
  memory: FormulaMemory,
  tolerance: (a: number, b: number, y: number) => number = () => 0,
): void {
  const { dtype, n, output } = problem;
  const first = broadcast(problem.a, problem, memory);
  const second = broadcast(problem.b, problem, memory);
  const write = memory.write(output, isComparison(problem.kind) ? "u8" : dtype);
  for (let i = 0; i < n; i++) {
    const [a, b] = [first(i), second(i)];
    const y = apply(a, b);
    write(i, y, tolerance(a, b, y));
  }
}

/** Returns the value of an input that belongs to the i-th element of the output. */
function broadcast(
  input: BinaryInput<ReferenceMemory>,
  { shape, dtype }: Operands,
  memory: FormulaMemory,
): (i: number) => number {
  if ("scalar" in input) return () => input.scalar;
  const values = memory.read(input.region, dtype);
  const places = offsets(shape.map((extent, axis) => ({ extent, stride: input.strides[axis]! })));
  return (i) => values[places[i]!]!;
}
