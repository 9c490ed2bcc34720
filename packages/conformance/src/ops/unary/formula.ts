import {
  elementTypes,
  type FloatType,
  type FloatUnaryKind,
  type IntegerType,
  isTest,
  type Numerics,
  type UnaryKind,
  type UnaryProblem,
} from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import {
  type IntegerUnaryKind,
  integerUnaryFunctions,
  logicalUnaryFunctions,
  tests,
  unaryFunctions,
} from "../../functions.js";
import type { Evaluate } from "../operation.js";
import { unaryTolerance } from "./tolerance.js";

/** Element types that the operation is for. */
export type UnaryType = UnaryProblem<unknown>["dtype"];

/** The function of a kind and element type. Throws for a kind that the type lacks. */
export function functionOf(kind: UnaryKind, dtype: UnaryType): (x: number) => number {
  const ofType: Readonly<Partial<Record<UnaryKind, (x: number) => number>>> =
    dtype === "u8"
      ? logicalUnaryFunctions
      : elementTypes[dtype].range === undefined
        ? isTest(kind)
          ? tests
          : unaryFunctions
        : integerUnaryFunctions[dtype as IntegerType];
  const apply = ofType[kind];
  if (apply === undefined) throw new Error(`there is no ${kind} of ${dtype}`);
  return apply;
}

/** Whether every backend gives the very number. */
export function isExact(kind: UnaryKind, dtype: UnaryType): boolean {
  return isTest(kind) || elementTypes[dtype].range !== undefined;
}

export const integerUnaryKinds: readonly IntegerUnaryKind[] = Object.keys(
  integerUnaryFunctions.i32,
) as IntegerUnaryKind[];

function toleranceOf(
  kind: UnaryKind,
  dtype: UnaryType,
  numerics: Numerics | undefined,
): (x: number, y: number) => number {
  if (numerics === undefined || isExact(kind, dtype)) return () => 0;
  return (x, y) => unaryTolerance(kind as FloatUnaryKind, x, y, dtype as FloatType, numerics);
}

export const evaluate: Evaluate<UnaryProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { kind, dtype, n, input, output } = problem;
  const apply = functionOf(kind, dtype);
  const tolerance = toleranceOf(kind, dtype, numerics);
  const values = memory.read(input, dtype);
  const write = memory.write(output, isTest(kind) ? "u8" : dtype);
  for (let i = 0; i < n; i++) {
    const x = values[i]!;
    const y = apply(x);
    write(i, y, tolerance(x, y));
  }
};
