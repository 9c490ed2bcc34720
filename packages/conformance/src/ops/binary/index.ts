import {
  type ArithmeticKind,
  arithmeticKinds,
  type BinaryProblem,
  type FloatType,
  floatTypes,
  operations,
} from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { TestedOperation } from "../operation.js";
import { inPlace, medium, poisoned, small } from "./calls.js";
import { draft } from "./draft.js";
import { evaluate } from "./formula.js";
import { inPlaceLaws } from "./in-place-laws.js";
import { binaryLaws } from "./laws.js";
import { binaryMutants } from "./mutants.js";
import { specialValues } from "./special-values.js";

export { evaluateAs } from "./formula.js";
export { binaryTolerance } from "./tolerance.js";

export const binary: TestedOperation<BinaryProblem<ReferenceMemory, FloatType, ArithmeticKind>> = {
  operation: operations.binary,
  supports: [{ dtype: floatTypes, kind: arithmeticKinds }],
  ...{ evaluate, small, medium, poisoned, inPlace, draft, specialValues, inPlaceLaws },
  /** Elements of the output; elements of the smaller operand. */
  shapeAxes: ["outputs", "smaller"],
  laws: binaryLaws,
  mutants: binaryMutants,
};
