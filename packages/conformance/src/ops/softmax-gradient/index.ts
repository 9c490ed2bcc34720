import {
  floatTypes,
  operations,
  type SoftmaxGradientProblem,
  type SoftmaxKind,
  softmaxKinds,
} from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import { product } from "../../kit/shapes.js";
import { countUp, isInRow } from "../../kit/values.js";
import type {
  Call,
  PoisonedCall,
  RepeatedCall,
  SmallCall,
  TestedOperation,
  TimedCall,
} from "../operation.js";
import { evaluate } from "./formula.js";
import { softmaxGradientLaws, specialValues } from "./laws.js";
import { softmaxGradientMutants } from "./mutants.js";

const operandsOf = (count: number) => ({ output: count, outputGradient: count, inputGradient: count });

const small: SmallCall = {
  operands: operandsOf(12),
  rest: { kind: "softmax", shape: [3, 4] },
  inPlace: ["output", "outputGradient"],
  malformed: [{ axis: 2 }, { axis: -3 }, { axis: 0.5 }, { axis: [1] }, { shape: [] }],
  nothing: [{ shape: [0, 4] }, { shape: [3, 0] }],
  tooLarge: [["output", { shape: [3, 1000] }]],
};

const inPlace = (n: number): Call => ({
  operands: operandsOf(4 * n),
  rest: { kind: "softmax", shape: [2, n, 2], axis: 1 },
});

const medium: Call = {
  operands: operandsOf(60_000),
  rest: { kind: "softmax", shape: [3000, 20], axis: 0 },
};

const poisoned: PoisonedCall = {
  rest: { kind: "softmax", shape: [3, 11] },
  inputs: { output: countUp(3 * 11), outputGradient: countUp(3 * 11, 3) },
  at: 11 + 6,
  hit: { inputGradient: isInRow(1, 3, 11) },
};

const repeated: RepeatedCall = {
  rest: { kind: "softmax", shape: [2 ** 17 + 5] },
  inputs: { output: 2 ** 17 + 5, outputGradient: 2 ** 17 + 5 },
  outputs: { inputGradient: 2 ** 17 + 5 },
};

/** Two reads and one write; rows that a workgroup of a GPU cannot hold are read twice. */
const timed: readonly TimedCall[] = (
  [
    ["small", "softmax", "f32", "1024x1024", [1024, 1024], 1, undefined],
    ["small", "softmax", "f32", "1024x1024 along columns", [1024, 1024], 0, undefined],
    ...floatTypes.flatMap(
      (dtype) =>
        [
          ["large", "softmax", dtype, "16384x4096", [16_384, 4096], 1, 0.8],
          ["large", "softmax", dtype, "1Mx64", [2 ** 20, 64], 1, 0.8],
          ["large", "softmax", dtype, "64x1M", [64, 2 ** 20], 1, 0.55],
          ["large", "softmax", dtype, "4096x16384 along columns", [4096, 16_384], 0, 0.55],
        ] as const,
    ),
    ["large", "logSoftmax", "f32", "16384x4096", [16_384, 4096], 1, 0.8],
  ] as const
).map(([size, kind, dtype, name, shape, axis, copyShare]) => ({
  ...{ size, name: `gradient of ${kind} ${name}`, rest: { kind, shape, axis, dtype } },
  operands: operandsOf(product(shape)),
  ...(copyShare === undefined ? {} : { copyShare }),
}));

const draft: Draw = (dice, limits, dtype) => {
  const kind = dice.pick<SoftmaxKind>(softmaxKinds);
  const inner = dice.size(limits.elements);
  const length = dice.size(limits.elements / inner);
  const outer = dice.size(limits.elements / inner / length);
  const count = outer * length * inner;
  return {
    rest: { kind, shape: [outer, length, inner], axis: dice.pick([1, -2]), dtype },
    inputs: { output: count, outputGradient: count },
    outputs: { inputGradient: count },
    // Not in place: the inputs may overlap each other.
    range: ({ output, outputGradient }) => {
      const [y, dy] = [magnitude(output!), magnitude(outputGradient!)];
      const sum = length * dy;
      return within(1.01 * (kind === "softmax" ? y * (dy + y * sum) : dy + Math.exp(y) * sum));
    },
  };
};

export const softmaxGradient: TestedOperation<SoftmaxGradientProblem<ReferenceMemory>> = {
  operation: operations.softmaxGradient,
  supports: [{ dtype: floatTypes }],
  ...{ evaluate, small, medium, poisoned, repeated, inPlace, timed, draft, specialValues },
  /** Elements along the axis; rows. */
  shapeAxes: ["length", "rows"],
  laws: softmaxGradientLaws,
  mutants: softmaxGradientMutants,
};
