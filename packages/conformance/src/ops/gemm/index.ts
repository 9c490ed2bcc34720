import { floatTypes, type GemmProblem, operations } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { TestedOperation } from "../operation.js";
import { batchedGemmLaws } from "./batched-laws.js";
import { batchedGemmMutants } from "./batched-mutants.js";
import { batchedMedium, batchedPoisoned, batchedSmall, medium, poisoned, repeated, small } from "./calls.js";
import { draftOf } from "./draft.js";
import { epilogueMutants } from "./epilogue-mutants.js";
import { evaluate } from "./formula.js";
import { gemmLaws } from "./laws.js";
import { gemmMutants } from "./mutants.js";
import { specialValues } from "./special-values.js";

export { gemm as gemmFormula } from "./formula.js";

type Problem = GemmProblem<ReferenceMemory>;

export const gemm: TestedOperation<Problem> = {
  operation: operations.gemm,
  supports: [{ dtype: floatTypes, bias: true, activation: true }],
  ...{ evaluate, small, medium, poisoned, repeated, specialValues },
  draft: draftOf(false),
  shapeAxes: ["m", "n", "k"],
  laws: gemmLaws,
  mutants: (build) => [...gemmMutants(build), ...epilogueMutants(build)],
};

export const batchedGemm: TestedOperation<Problem> = {
  operation: operations.batchedGemm,
  supports: [{ dtype: floatTypes, bias: true, activation: true }],
  ...{ evaluate, small: batchedSmall, medium: batchedMedium, poisoned: batchedPoisoned },
  draft: draftOf(true),
  shapeAxes: ["m", "n", "k", "batch"],
  laws: batchedGemmLaws,
  mutants: batchedGemmMutants,
};
