import { dtypeBytes, type GemmProblem } from "@backplane/core";
import { address, type CpuMemory } from "../kernel.js";

/**
 * The layout of op(A) or op(B) in memory, in bytes. A line is a row of op(A) or a column of op(B): k elements
 * that are multiplied with those of another line.
 */
export interface Lines {
  readonly address: number;
  /** From one stored row to the next. */
  readonly stride: number;
  /** From matrix to matrix. */
  readonly batch: number;
  /** 1 if a line lies along a stored row, 0 if it lies across. */
  readonly alongK: number;
  /** From line to line, and from one element of a line to the next. */
  readonly lineStep: number;
  readonly kStep: number;
}

export function linesOfA(problem: GemmProblem<CpuMemory>): Lines {
  const bytes = dtypeBytes[problem.dtype];
  return lines(address(problem.a), problem.lda * bytes, problem.strideA * bytes, !problem.transA, bytes);
}

export function linesOfB(problem: GemmProblem<CpuMemory>): Lines {
  const bytes = dtypeBytes[problem.dtype];
  return lines(address(problem.b), problem.ldb * bytes, problem.strideB * bytes, problem.transB, bytes);
}

function lines(start: number, stride: number, batch: number, along: boolean, bytes: number): Lines {
  return {
    address: start,
    stride,
    batch,
    alongK: along ? 1 : 0,
    lineStep: along ? stride : bytes,
    kStep: along ? bytes : stride,
  };
}
