import {
  arithmeticKinds,
  type BinaryProblem,
  binaryKinds,
  floatTypes,
  integerTypes,
  isComparison,
  logicalKinds,
  operations,
} from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { comparisons, integerFunctions } from "../../functions.js";
import type { TestedOperation } from "../operation.js";
import { inPlace, medium, poisoned, small } from "./calls.js";
import { draft } from "./draft.js";
import { exactLaws } from "./exact-laws.js";
import { exactMutants } from "./exact-mutants.js";
import { evaluate } from "./formula.js";
import { inPlaceLaws } from "./in-place-laws.js";
import { binaryLaws } from "./laws.js";
import { binaryMutants } from "./mutants.js";
import { specialValues } from "./special-values.js";

export { evaluateAs } from "./formula.js";
export { binaryTolerance } from "./tolerance.js";

export const binary: TestedOperation<BinaryProblem<ReferenceMemory>> = {
  operation: operations.binary,
  supports: [
    { dtype: floatTypes, kind: [...arithmeticKinds, ...Object.keys(comparisons)] },
    { dtype: integerTypes, kind: [...Object.keys(integerFunctions.i32), ...Object.keys(comparisons)] },
    { dtype: ["u8"], kind: logicalKinds },
  ],
  ...{ evaluate, small, medium, poisoned, inPlace, draft, specialValues, inPlaceLaws },
  inPlaceKinds: binaryKinds.filter((kind) => !isComparison(kind)),
  /** Elements of the output; elements of the smaller operand. */
  shapeAxes: ["outputs", "smaller"],
  laws: [...binaryLaws, ...exactLaws],
  mutants: (builder) => [...binaryMutants(builder), ...exactMutants(builder)],
};
