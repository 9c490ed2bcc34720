import { operations, type ReduceProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { TestedOperation } from "../operation.js";
import { medium, poisoned, repeated, small, timed } from "./calls.js";
import { draft } from "./draft.js";
import { exactLaws } from "./exact-laws.js";
import { evaluate } from "./formula.js";
import { reduceKindsOf } from "./kinds.js";
import { reduceLaws } from "./laws.js";
import { reduceMutants } from "./mutants.js";
import { specialValues } from "./special-values.js";
import { truthLaws } from "./truth-laws.js";

export const reduce: TestedOperation<ReduceProblem<ReferenceMemory>> = {
  operation: operations.reduce,
  supports: Object.entries(reduceKindsOf).map(([dtype, kind]) => ({ dtype: [dtype], kind })),
  ...{ evaluate, small, medium, poisoned, repeated, timed, draft, specialValues },
  /** Elements that go into one result; results. */
  shapeAxes: ["reduced", "kept"],
  laws: [...reduceLaws, ...exactLaws, ...truthLaws],
  mutants: reduceMutants,
};
