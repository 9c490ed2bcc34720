import type { ArithmeticKind, BinaryInput, BinaryProblem, FloatType } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { binaryFunctions } from "../../functions.js";
import type { Evaluate, FormulaMemory } from "../operation.js";
import { offsets } from "../places.js";
import { binaryTolerance } from "./tolerance.js";

type Problem = BinaryProblem<ReferenceMemory, FloatType, ArithmeticKind>;

export const evaluate: Evaluate<Problem> = (problem, memory, numerics) => {
  const { kind, dtype } = problem;
  const tolerance =
    numerics && ((a: number, b: number, y: number) => binaryTolerance(kind, a, b, y, dtype, numerics));
  evaluateAs(binaryFunctions[kind], problem, memory, tolerance);
};

type Operands = Pick<BinaryProblem<ReferenceMemory>, "dtype" | "shape" | "n" | "a" | "b" | "output">;

/** Evaluates a function on the operands of a problem, whatever its kind. Default tolerance: 0. */
export function evaluateAs(
  apply: (a: number, b: number) => number,
  problem: Operands,
  memory: FormulaMemory,
  tolerance: (a: number, b: number, y: number) => number = () => 0,
): void {
  const { dtype, n, output } = problem;
  const first = broadcast(problem.a, problem, memory);
  const second = broadcast(problem.b, problem, memory);
  const write = memory.write(output, dtype);
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
