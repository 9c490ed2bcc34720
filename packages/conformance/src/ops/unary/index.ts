import {
  floatTypes,
  floatUnaryKinds,
  integerTypes,
  operations,
  type UnaryKind,
  type UnaryProblem,
  unaryKinds,
} from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { logicalUnaryFunctions, tests } from "../../functions.js";
import type { UnaryEntry } from "../../kinds/entry.js";
import { unaryEntries } from "../../kinds/unary.js";
import type { TestedOperation } from "../operation.js";
import { inPlace, medium, poisoned, small } from "./calls.js";
import { draft } from "./draft.js";
import { exactLaws, testsOfSpecialValues } from "./exact-laws.js";
import { evaluate, integerUnaryKinds } from "./formula.js";
import { unaryLaws } from "./laws.js";
import { unaryMutants } from "./mutants.js";
import { specialValues } from "./special-values.js";

export { inDomain } from "./laws.js";
export { unaryError, unaryTolerance } from "./tolerance.js";

export const unary: TestedOperation<UnaryProblem<ReferenceMemory>> = {
  operation: operations.unary,
  supports: [
    { dtype: floatTypes, kind: [...floatUnaryKinds, ...Object.keys(tests)] },
    { dtype: integerTypes, kind: integerUnaryKinds },
    { dtype: ["u8"], kind: Object.keys(logicalUnaryFunctions) },
  ],
  ...{ evaluate, small, medium, poisoned, inPlace, draft },
  specialValues: (dtype) => [...specialValues(dtype), ...testsOfSpecialValues(dtype)],
  // Those that are defined on the numbers of the laws, from 1/2 to 2.
  inPlaceKinds: unaryKinds.filter(
    (kind) =>
      !(kind in tests) &&
      (unaryEntries as Readonly<Partial<Record<UnaryKind, UnaryEntry>>>)[kind]?.undefinedAt === undefined,
  ),
  shapeAxes: ["n"],
  laws: [...unaryLaws, ...exactLaws],
  mutants: unaryMutants,
};
