import { dtypeBytes, type FloatType, type GemmProblem } from "@backplane/core";
import type { BufferRegion, DeviceMemory } from "../../runtime/index.js";
import { count, flag, floatType, type ShapeFields } from "../fields.js";

type Problem = GemmProblem<DeviceMemory>;

/** The facts on which a choice between variants may be based: sizes and layouts of the operands, no buffers. */
export interface GemmShape {
  readonly dtype: FloatType;
  readonly m: number;
  readonly n: number;
  /** At least 1. */
  readonly k: number;
  readonly batch: number;
  readonly transA: boolean;
  readonly transB: boolean;
  /** Every run of four along the rows of the stored operand is whole and aligned to four elements. */
  readonly vectorA: boolean;
  readonly vectorB: boolean;
  /** Every run of eight along the rows of both stored operands is, and every run of four of C. */
  readonly wholeEights: boolean;
}

export const gemmFields: ShapeFields<GemmShape> = {
  ...{ dtype: floatType, m: count, n: count, k: count, batch: count, transA: flag, transB: flag },
  ...{ vectorA: flag, vectorB: flag, wholeEights: flag },
};

/** The shape of a problem; `vectorC`: runs of four along the rows of C are whole and aligned. */
export function shapeOf(problem: Problem, vectorC: boolean): GemmShape {
  const { dtype, m, n, k, batch, transA, transB } = problem;
  return {
    dtype,
    m,
    n,
    k,
    batch,
    transA,
    transB,
    vectorA: isVector(problem, "a", 4),
    vectorB: isVector(problem, "b", 4),
    wholeEights: dtype === "f16" && isVector(problem, "a", 8) && isVector(problem, "b", 8) && vectorC,
  };
}

/** Whether runs of `length` along the stored rows of an operand are whole and aligned. Makes no objects: each call asks. */
export function isVector(problem: Problem, name: "a" | "b" | "c", length: number): boolean {
  const { m, n, k, transA, transB } = problem;
  if (name === "a") return inRuns(problem, problem.a, transA ? m : k, problem.lda, problem.strideA, length);
  if (name === "b") return inRuns(problem, problem.b, transB ? k : n, problem.ldb, problem.strideB, length);
  return inRuns(problem, problem.c, n, problem.ldc, problem.strideC, length);
}

function inRuns(
  { dtype, batch }: Problem,
  { byteOffset }: BufferRegion,
  columns: number,
  ld: number,
  step: number,
  length: number,
): boolean {
  return (
    columns % length === 0 &&
    ld % length === 0 &&
    (batch === 1 || step % length === 0) &&
    byteOffset % (dtypeBytes[dtype] * length) === 0
  );
}
