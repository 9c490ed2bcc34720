import { type AttentionProblem, floatTypes, maskTypes, operations } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { TestedOperation } from "../operation.js";
import { medium, poisoned, repeated, small } from "./calls.js";
import { draft } from "./draft.js";
import { evaluate } from "./formula.js";
import { attentionLaws } from "./laws.js";
import { logSumExpMutants } from "./log-sum-exp.js";
import { attentionMutants } from "./mutants.js";

export const attention: TestedOperation<AttentionProblem<ReferenceMemory>> = {
  operation: operations.attention,
  supports: [{ dtype: floatTypes, mask: true, maskDtype: maskTypes, window: true, logSumExp: true }],
  ...{ evaluate, small, medium, poisoned, repeated, draft },
  shapeAxes: ["queryLength", "keyLength", "headSize"],
  laws: attentionLaws,
  mutants: (build) => [...attentionMutants(build), ...logSumExpMutants(build)],
};
