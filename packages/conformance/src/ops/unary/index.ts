import { floatTypes, operations, type UnaryProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { TestedOperation } from "../operation.js";
import { inPlace, medium, poisoned, small } from "./calls.js";
import { draft } from "./draft.js";
import { evaluate } from "./formula.js";
import { unaryLaws } from "./laws.js";
import { unaryMutants } from "./mutants.js";
import { specialValues } from "./special-values.js";

export { inDomain } from "./laws.js";
export { unaryErrors, unaryTolerance } from "./tolerance.js";

export const unary: TestedOperation<UnaryProblem<ReferenceMemory>> = {
  operation: operations.unary,
  supports: [{ dtype: floatTypes }],
  ...{ evaluate, small, medium, poisoned, inPlace, draft, specialValues },
  shapeAxes: ["n"],
  laws: unaryLaws,
  mutants: unaryMutants,
};
