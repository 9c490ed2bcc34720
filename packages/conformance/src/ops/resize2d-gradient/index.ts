import { floatTypes, operations, type Resize2dGradientProblem, type Resize2dKind } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import { product } from "../../kit/shapes.js";
import { countUp, isIn } from "../../kit/values.js";
import type {
  Call,
  PoisonedCall,
  RepeatedCall,
  SmallCall,
  TestedOperation,
  TimedCall,
} from "../operation.js";
import { draft as resized } from "../resize2d/draft.js";
import { evaluate } from "./formula.js";
import { resize2dGradientLaws, specialValues } from "./laws.js";
import { resize2dGradientMutants } from "./mutants.js";

const small: SmallCall = {
  operands: { outputGradient: 40, inputGradient: 12 },
  rest: { kind: "bilinear", inputShape: [1, 2, 2, 3], outputHeight: 4, outputWidth: 5 },
  malformed: [
    ...[{ inputShape: [1, 2, 0, 3] }, { inputShape: [2, 2, 3] }, { kind: "cubic" }, { layout: "CHW" }],
    ...[{ coordinates: "corners" }, { outputHeight: 2 ** 31 - 1 }],
  ],
  nothing: [{ inputShape: [0, 2, 2, 3] }, { outputWidth: 0, inputShape: [1, 2, 0, 3] }],
  tooLarge: [
    ["outputGradient", { outputHeight: 1000 }],
    ["inputGradient", { inputShape: [1, 2, 1000, 3], outputHeight: 1, outputWidth: 1 }],
  ],
  // Sums of a few of these small numbers in f16, and factors that are no fractions of two.
  allowed: 2 ** -7,
};

const medium: Call = {
  operands: { outputGradient: 3 * 80 * 100, inputGradient: 3 * 40 * 50 },
  rest: { kind: "bilinear", inputShape: [1, 3, 40, 50], outputHeight: 80, outputWidth: 100 },
};

/** Of the second image; rows are at 0, 1 / 2 and 1, and so are columns. */
const poisoned: PoisonedCall = {
  rest: {
    ...{ kind: "bilinear", inputShape: [2, 1, 2, 2], outputHeight: 3, outputWidth: 3 },
    coordinates: "align-corners",
  },
  inputs: { outputGradient: countUp(18) },
  at: 9 + 1,
  hit: { inputGradient: isIn(8, 4, 5) },
};

const repeated: RepeatedCall = {
  rest: { kind: "bilinear", inputShape: [2, 3, 7, 11], outputHeight: 200, outputWidth: 300 },
  inputs: { outputGradient: 2 * 3 * 200 * 300 },
  outputs: { inputGradient: 2 * 3 * 7 * 11 },
};

const timedOf = (
  size: TimedCall["size"],
  kind: Resize2dKind,
  layout: "NCHW" | "NHWC",
  batch: number,
  extent: number,
  copyShare?: number,
): TimedCall => {
  const inputShape = layout === "NCHW" ? [batch, 64, extent, extent] : [batch, extent, extent, 64];
  return {
    ...{ size, name: `${kind} x2 of ${inputShape.join("x")}${layout === "NCHW" ? "" : " NHWC"}` },
    rest: {
      ...{ kind, inputShape, outputHeight: 2 * extent, outputWidth: 2 * extent },
      ...(layout === "NCHW" ? {} : { layout }),
    },
    operands: { outputGradient: 4 * product(inputShape), inputGradient: product(inputShape) },
    parts:
      layout === "NCHW"
        ? { count: batch * 64, rest: { inputShape: [1, 1, extent, extent] } }
        : { count: batch, rest: { inputShape: [1, extent, extent, 64] } },
    ...(copyShare === undefined ? {} : { copyShare }),
  };
};

const timed: readonly TimedCall[] = [
  timedOf("small", "bilinear", "NCHW", 1, 56),
  timedOf("small", "nearest", "NCHW", 1, 56),
  timedOf("small", "bilinear", "NHWC", 1, 56),
  timedOf("large", "bilinear", "NCHW", 64, 112, 0.8),
  timedOf("large", "nearest", "NCHW", 64, 112, 0.8),
  timedOf("large", "bilinear", "NHWC", 64, 112, 0.8),
  timedOf("large", "nearest", "NHWC", 64, 112, 0.8),
];

/** The gradient of a drawn call of resize2d. */
const draft: Draw = (dice, limits, dtype) => {
  const { rest, inputs, outputs } = resized(dice, limits, dtype);
  const [elements, results] = [inputs.input!, outputs.output!];
  return {
    rest,
    inputs: { outputGradient: results },
    outputs: { inputGradient: elements },
    // All results of an image may be made of one element.
    range: ({ outputGradient }) =>
      within(magnitude(outputGradient!) * (rest.outputHeight as number) * (rest.outputWidth as number)),
  };
};

export const resize2dGradient: TestedOperation<Resize2dGradientProblem<ReferenceMemory>> = {
  operation: operations.resize2dGradient,
  supports: [{ dtype: floatTypes }],
  ...{ evaluate, small, medium, poisoned, repeated, timed, draft, specialValues },
  /** Pixels of one channel of the results of resize2d, and of its input; channels of all images. */
  shapeAxes: ["pixels", "inputPixels", "channels"],
  laws: resize2dGradientLaws,
  mutants: resize2dGradientMutants,
};
