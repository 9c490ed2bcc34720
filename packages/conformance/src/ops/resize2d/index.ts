import {
  floatTypes,
  operations,
  type Resize2dKind,
  type Resize2dProblem,
  resize2dTypes,
} from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { product } from "../../kit/shapes.js";
import { countUp, isIn } from "../../kit/values.js";
import type { Call, PoisonedCall, SmallCall, TestedOperation, TimedCall } from "../operation.js";
import { draft } from "./draft.js";
import { evaluate } from "./formula.js";
import { resize2dLaws, specialValues } from "./laws.js";
import { resize2dMutants } from "./mutants.js";

const small: SmallCall = {
  operands: { input: 12, output: 40 },
  rest: { kind: "bilinear", inputShape: [1, 2, 2, 3], outputHeight: 4, outputWidth: 5 },
  malformed: [
    ...[{ inputShape: [1, 2, 0, 3] }, { inputShape: [2, 2, 3] }, { kind: "cubic" }, { layout: "CHW" }],
    { coordinates: "corners" },
    // Places that kernels could not compute in 32 bits.
    { outputHeight: 2 ** 31 - 1 },
  ],
  nothing: [{ inputShape: [0, 2, 2, 3] }, { outputHeight: 0 }, { outputWidth: 0, inputShape: [1, 2, 0, 3] }],
  tooLarge: [
    ["input", { inputShape: [1000, 2, 2, 3], outputHeight: 1, outputWidth: 1 }],
    ["output", { outputHeight: 1000 }],
  ],
  // Results of these small numbers in f16, and factors that are no fractions of two.
  allowed: 2 ** -9,
};

const medium: Call = {
  operands: { input: 3 * 40 * 50, output: 3 * 80 * 100 },
  rest: { kind: "bilinear", inputShape: [1, 3, 40, 50], outputHeight: 80, outputWidth: 100 },
};

/** Of the second image; rows are 0, 1 / 2 and 1 in the input, and so are columns. */
const poisoned: PoisonedCall = {
  rest: {
    ...{ kind: "bilinear", inputShape: [2, 1, 2, 2], outputHeight: 3, outputWidth: 3 },
    coordinates: "align-corners",
  },
  inputs: { input: countUp(8) },
  at: 4,
  hit: { output: isIn(18, 9, 10, 12, 13) },
};

const timedOf = (
  size: TimedCall["size"],
  kind: Resize2dKind,
  batch: number,
  extent: number,
  copyShare?: number,
): TimedCall => {
  const shape = [batch, 64, extent, extent];
  return {
    ...{ size, name: `${kind} x2 of ${shape.join("x")}` },
    rest: { kind, inputShape: shape, outputHeight: 2 * extent, outputWidth: 2 * extent },
    operands: { input: product(shape), output: 4 * product(shape) },
    parts: { count: batch * 64, rest: { inputShape: [1, 1, extent, extent] } },
    ...(copyShare === undefined ? {} : { copyShare }),
  };
};

const timed: readonly TimedCall[] = [
  timedOf("small", "bilinear", 1, 56),
  timedOf("small", "nearest", 1, 56),
  timedOf("peers", "bilinear", 4, 56),
  timedOf("peers", "nearest", 4, 56),
  timedOf("large", "bilinear", 64, 112, 0.8),
  timedOf("large", "nearest", 64, 112, 0.8),
];

export const resize2d: TestedOperation<Resize2dProblem<ReferenceMemory>> = {
  operation: operations.resize2d,
  supports: [{ dtype: floatTypes }, { dtype: resize2dTypes, kind: ["nearest"] }],
  ...{ evaluate, small, medium, poisoned, timed, draft, specialValues },
  /** Pixels of one channel of the output, and of the input; channels of all images. */
  shapeAxes: ["pixels", "inputPixels", "channels"],
  laws: resize2dLaws,
  mutants: resize2dMutants,
};
