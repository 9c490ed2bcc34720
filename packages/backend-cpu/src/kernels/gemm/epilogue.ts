import type { GemmProblem } from "@backplane/core";
import { widening } from "../convert/index.js";
import { activationCode, type EpilogueParameters, noEpilogue } from "../epilogue/index.js";
import { address, type CpuMemory, type Launch, type PlanContext } from "../kernel.js";
import { planFill } from "../memory/index.js";

type Problem = GemmProblem<CpuMemory>;

/** The epilogue of a problem, and the commands that prepare it. */
export interface PlannedEpilogue {
  readonly parameters: EpilogueParameters;
  readonly launches: readonly Launch[];
}

const none: readonly Launch[] = [];

const nothing: PlannedEpilogue = { parameters: noEpilogue, launches: none };

export function planEpilogue(
  { dtype, n, bias, activation }: Pick<Problem, "dtype" | "n" | "bias" | "activation">,
  context: PlanContext,
): PlannedEpilogue {
  if (bias === undefined && activation === undefined) return nothing;
  // Plain literals, as wherever small calls would show an object spread.
  const code = activationCode(activation);
  if (bias === undefined) return { parameters: { bias: 0, biasStep: 4, activation: code }, launches: none };
  const widen = widening[dtype];
  const at = address(bias);
  if (widen === undefined) return { parameters: { bias: at, biasStep: 4, activation: code }, launches: none };
  const widened = context.workspace(4 * n);
  return {
    parameters: { bias: widened, biasStep: 4, activation: code },
    launches: [widen(at, widened, n)],
  };
}

/**
 * Turns a problem with nothing to sum into one that sums products of zeros, for the kernels that have an
 * epilogue: m x 1 times 1 x n.
 */
export function zeroProduct(problem: Problem, context: PlanContext): { problem: Problem; launch: Launch } {
  const { m, n } = problem;
  const byteLength = 4 * Math.max(m, n);
  const zeros = {
    memory: { byteOffset: context.workspace(byteLength), byteLength },
    ...{ byteOffset: 0, byteLength },
  };
  return {
    problem: {
      ...{ ...problem, k: 1, alpha: 1, a: zeros, b: zeros, lda: 1, ldb: n },
      ...{ strideA: 0, strideB: 0, transA: false, transB: false },
    },
    launch: planFill(zeros, 0),
  };
}
