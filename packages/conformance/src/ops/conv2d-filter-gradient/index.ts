import { type Conv2dFilterGradientProblem, floatTypes, operations } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { countUp, isIn } from "../../kit/values.js";
import { smallGeometry } from "../conv2d/calls.js";
import { type Gradient, mediumRest } from "../conv2d-gradients/cases.js";
import { gradientDraft } from "../conv2d-gradients/draft.js";
import { evaluateGradient, filterGradient, filterGradientTerms } from "../conv2d-gradients/formula.js";
import { gradientLaws } from "../conv2d-gradients/laws.js";
import type { Call, Evaluate, PoisonedCall, RepeatedCall, SmallCall, TestedOperation } from "../operation.js";
import { filterGradientMutants } from "./mutants.js";

const gradient: Gradient = {
  ...{ operation: "conv2dFilterGradient", other: "input", result: "filterGradient" },
  ...{ formula: filterGradient, terms: filterGradientTerms },
};

const evaluate: Evaluate<Conv2dFilterGradientProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { input: other, filterGradient: result } = problem;
  evaluateGradient(problem, { other, result }, gradient, memory, numerics);
};

const small: SmallCall = {
  operands: { input: 40, outputGradient: 27, filterGradient: 24 },
  ...smallGeometry,
  nothing: [
    ...[{ filterShape: [0, 2, 2, 2] }, { inputShape: [1, 0, 4, 5], filterShape: [3, 0, 2, 2] }],
    { inputShape: [0, 2, 4, 5], accumulate: true },
  ],
  tooLarge: [
    ["input", { inputShape: [1000, 2, 4, 5] }],
    ["filterGradient", { filterShape: [1000, 2, 2, 2] }],
    ["outputGradient", { padding: [1000, 1, 0, 0] }],
  ],
};

const medium: Call = {
  operands: { input: 2 * 8 * 24 * 24, outputGradient: 2 * 6 * 12 * 24, filterGradient: 6 * 8 * 9 },
  rest: mediumRest,
};

const poisoned: PoisonedCall = {
  rest: { inputShape: [1, 2, 3, 3], filterShape: [1, 2, 2, 1] },
  inputs: { input: countUp(2 * 9), outputGradient: countUp(6) },
  // The last row of the second channel meets the second row of the filter alone.
  at: 9 + 7,
  hit: { filterGradient: isIn(4, 3) },
};

const repeated: RepeatedCall = {
  rest: { inputShape: [2, 16, 20, 20], filterShape: [32, 16, 3, 3] },
  inputs: { input: 2 * 16 * 400, outputGradient: 2 * 32 * 324 },
  outputs: { filterGradient: 16 * 32 * 9 },
};

export const conv2dFilterGradient: TestedOperation<Conv2dFilterGradientProblem<ReferenceMemory>> = {
  operation: operations.conv2dFilterGradient,
  supports: [{ dtype: floatTypes }],
  ...{ evaluate, small, medium, poisoned, repeated, draft: gradientDraft(gradient) },
  /** Output pixels of the batch; products per output element of the convolution; output channels. */
  shapeAxes: ["pixels", "window", "outChannels"],
  laws: gradientLaws(gradient),
  mutants: filterGradientMutants,
};
