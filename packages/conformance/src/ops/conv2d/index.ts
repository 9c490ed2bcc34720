import { type Conv2dProblem, floatTypes, operations } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { TestedOperation } from "../operation.js";
import { medium, poisoned, repeated, small } from "./calls.js";
import { draft } from "./draft.js";
import { evaluate } from "./formula.js";
import { conv2dLaws } from "./laws.js";
import { conv2dMutants } from "./mutants.js";

export const conv2d: TestedOperation<Conv2dProblem<ReferenceMemory>> = {
  operation: operations.conv2d,
  supports: [{ dtype: floatTypes, activation: true }],
  ...{ evaluate, small, medium, poisoned, repeated, draft },
  /** Output pixels of one channel; products per output element; output channels. */
  shapeAxes: ["pixels", "window", "outChannels"],
  laws: conv2dLaws,
  mutants: conv2dMutants,
};
