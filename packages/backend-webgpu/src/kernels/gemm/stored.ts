import type { GemmProblem } from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { UNIT } from "../tiles/index.js";
import { packProgram } from "./pack.wgsl.js";
import type { AlignedShape } from "./shape.js";

type Problem = GemmProblem<DeviceMemory>;

/** The matrices of one operand as they are stored: `rows` x `columns`, `ld` and `step` elements apart. */
export interface StoredOperand {
  readonly region: BufferRegion;
  readonly rows: number;
  readonly columns: number;
  readonly ld: number;
  /** From one matrix of the batch to the next; 0: they are one and the same. */
  readonly step: number;
}

export function storedOperand(problem: Problem, name: "a" | "b" | "c"): StoredOperand {
  const { m, n, k, transA, transB } = problem;
  const shape = {
    a: { rows: transA ? k : m, columns: transA ? m : k, ld: problem.lda, step: problem.strideA },
    b: { rows: transB ? n : k, columns: transB ? k : n, ld: problem.ldb, step: problem.strideB },
    c: { rows: m, columns: n, ld: problem.ldc, step: problem.strideC },
  }[name];
  return { region: problem[name], ...shape };
}

/** An f16 operand with rows of whole, aligned units: itself if it has them, or a copy in scratch. */
export function inUnits(
  context: KernelContext,
  problem: Problem,
  { eightsA, eightsB }: AlignedShape,
  name: "a" | "b",
): StoredOperand {
  const stored = storedOperand(problem, name);
  if (name === "a" ? eightsA : eightsB) return stored;
  const { region, rows, columns, ld, step } = stored;
  const batch = step === 0 ? 1 : problem.batch;
  const perRow = Math.ceil(columns / UNIT);
  const units = batch * rows * perRow;
  const packed = context.scratch(16 * units);
  context.dispatch(
    packProgram,
    { source: region, packed },
    { rows, columns, pitch: ld, step, batch },
    Math.ceil(units / WORKGROUP_SIZE),
  );
  const packedLd = perRow * UNIT;
  return { region: packed, rows, columns, ld: packedLd, step: step === 0 ? 0 : rows * packedLd };
}
