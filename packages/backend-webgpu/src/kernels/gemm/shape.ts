import { dtypeBytes, type FloatType, type GemmProblem } from "@backplane/core";
import type { BufferRegion, DeviceMemory } from "../../runtime/index.js";
import { count, flag, floatType, type ShapeFields } from "../fields.js";
import { UNIT } from "../tiles/index.js";

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

/** All that programs are made for: the facts of the choice, and the rest of how the operands lie. */
export interface AlignedShape extends GemmShape {
  /** As `vectorA` and `vectorB`, for C. */
  readonly vectorC: boolean;
  /** For f16: every run of eight along the rows of the stored operand is whole and aligned to eight elements. */
  readonly eightsA: boolean;
  readonly eightsB: boolean;
}

/** The shape of a problem. Alignment is worked out here and nowhere else. */
export function shapeOf(problem: Problem): AlignedShape {
  const { dtype, m, n, k, batch, transA, transB, lda, ldb, ldc } = problem;
  const columnsA = transA ? m : k;
  const columnsB = transB ? k : n;
  const vectorC = inRuns(problem, problem.c, n, ldc, problem.strideC, 4);
  const eightsA = dtype === "f16" && inRuns(problem, problem.a, columnsA, lda, problem.strideA, UNIT);
  const eightsB = dtype === "f16" && inRuns(problem, problem.b, columnsB, ldb, problem.strideB, UNIT);
  return {
    dtype,
    m,
    n,
    k,
    batch,
    transA,
    transB,
    vectorA: inRuns(problem, problem.a, columnsA, lda, problem.strideA, 4),
    vectorB: inRuns(problem, problem.b, columnsB, ldb, problem.strideB, 4),
    wholeEights: eightsA && eightsB && vectorC,
    vectorC,
    eightsA,
    eightsB,
  };
}

/** Whether runs of `length` along the stored rows of an operand are whole and aligned. */
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
