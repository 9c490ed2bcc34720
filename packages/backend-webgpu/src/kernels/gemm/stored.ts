import type { GemmProblem } from "@backplane/core";
import type { BufferRegion, DeviceMemory } from "../../runtime/index.js";

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
