import { type Conv2dInputGradientProblem, floatTypes, operations } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { countUp, isIn } from "../../kit/values.js";
import { smallGeometry } from "../conv2d/calls.js";
import { inputGradientTiles } from "../conv2d/transformed.js";
import { type Gradient, mediumRest } from "../conv2d-gradients/cases.js";
import { gradientDraft } from "../conv2d-gradients/draft.js";
import { evaluateGradient, inputGradient, inputGradientTerms } from "../conv2d-gradients/formula.js";
import { gradientLaws } from "../conv2d-gradients/laws.js";
import type { Call, Evaluate, PoisonedCall, RepeatedCall, SmallCall, TestedOperation } from "../operation.js";
import { inputGradientMutants } from "./mutants.js";

const gradient: Gradient = {
  ...{ operation: "conv2dInputGradient", other: "filter", result: "inputGradient" },
  ...{ formula: inputGradient, terms: inputGradientTerms, tilesOf: inputGradientTiles },
};

const evaluate: Evaluate<Conv2dInputGradientProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { filter: other, inputGradient: result } = problem;
  evaluateGradient(problem, { other, result }, gradient, memory, numerics);
};

const small: SmallCall = {
  operands: { outputGradient: 27, filter: 24, inputGradient: 40 },
  ...smallGeometry,
  nothing: [
    ...[{ inputShape: [0, 2, 4, 5] }, { inputShape: [1, 0, 4, 5], filterShape: [3, 0, 2, 2] }],
    { filterShape: [0, 2, 2, 2], accumulate: true },
  ],
  tooLarge: [
    ["inputGradient", { inputShape: [1000, 2, 4, 5] }],
    ["filter", { filterShape: [1000, 2, 2, 2] }],
    ["outputGradient", { padding: [1000, 1, 0, 0] }],
  ],
};

const medium: Call = {
  operands: { outputGradient: 2 * 6 * 12 * 24, filter: 6 * 8 * 9, inputGradient: 2 * 8 * 24 * 24 },
  rest: mediumRest,
};

const poisoned: PoisonedCall = {
  rest: { inputShape: [2, 1, 3, 3], filterShape: [1, 1, 3, 1], padding: [1, 0, 1, 0] },
  inputs: { outputGradient: countUp(2 * 9), filter: countUp(3) },
  at: 9 + 4,
  hit: { inputGradient: isIn(18, 10, 13, 16) },
};

const repeated: RepeatedCall = {
  rest: { inputShape: [1, 16, 20, 20], filterShape: [32, 16, 3, 3] },
  inputs: { outputGradient: 32 * 324, filter: 16 * 32 * 9 },
  outputs: { inputGradient: 16 * 400 },
};

export const conv2dInputGradient: TestedOperation<Conv2dInputGradientProblem<ReferenceMemory>> = {
  operation: operations.conv2dInputGradient,
  supports: [{ dtype: floatTypes }],
  ...{ evaluate, small, medium, poisoned, repeated, draft: gradientDraft(gradient) },
  /** Output pixels of the batch; products per output element of the convolution; output channels. */
  shapeAxes: ["pixels", "window", "outChannels"],
  laws: gradientLaws(gradient),
  mutants: inputGradientMutants,
};
