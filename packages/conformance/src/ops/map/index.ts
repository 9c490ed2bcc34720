import { floatTypes, type MapProblem, operations } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { TestedOperation } from "../operation.js";
import { draft, inPlace, medium, poisoned, small, timed } from "./calls.js";
import { evaluate } from "./formula.js";
import { mapLaws } from "./laws.js";
import { mapMutants } from "./mutants.js";

const types = ["f32", "f16", "i32", "u32", "u8"] as const;

export const map: TestedOperation<MapProblem<ReferenceMemory>> = {
  operation: operations.map,
  supports: [{ dtype: floatTypes, inputTypes: types, outputTypes: types }],
  ...{ evaluate, small, medium, poisoned, inPlace, timed, draft },
  /** Elements of the outputs; nodes. */
  shapeAxes: ["outputs", "nodes"],
  laws: mapLaws,
  mutants: mapMutants,
};
