import { floatTypes, operations, type Pool2dGradientProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
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
import { draft } from "./draft.js";
import { evaluate } from "./formula.js";
import { pool2dGradientLaws, specialValues } from "./laws.js";
import { pool2dGradientMutants } from "./mutants.js";

const types = { indices: "i32" } as const;

const small: SmallCall = {
  operands: { outputGradient: 12, indices: 12, inputGradient: 40 },
  types,
  rest: { kind: "max", inputShape: [1, 2, 4, 5], kernel: [2, 2], stride: [1, 2] },
  malformed: [
    ...[{ kernel: [0, 2] }, { kernel: [5, 2] }, { stride: [0, 1] }, { dilation: [4, 1] }],
    ...[{ outputShape: [1, 2, 3, 3] }, { layout: "NWCH" }, { countPadding: true }],
    ...[{ padding: [2, 0, 0, 0] }, { padding: [2 ** 30, 0, 0, 0] }],
    // A maximum needs its indices, and a mean has none.
    ...[{ indices: undefined }, { kind: "mean" }],
  ],
  nothing: [{ inputShape: [0, 2, 4, 5] }, { inputShape: [1, 0, 4, 5] }],
  tooLarge: [
    ["inputGradient", { inputShape: [1, 2, 4, 6], stride: [1, 4] }],
    ["outputGradient", { padding: [1, 1, 1, 1], stride: [1, 1] }],
  ],
};

const medium: Call = {
  types,
  operands: { outputGradient: 3 * 30 * 55, indices: 3 * 30 * 55, inputGradient: 3 * 60 * 110 },
  rest: { kind: "max", inputShape: [1, 3, 60, 110], kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1] },
};

/** The windows of each column have all of its rows that are next to theirs. */
const poisoned: PoisonedCall = {
  rest: { kind: "mean", inputShape: [2, 1, 3, 3], kernel: [3, 1], stride: [1, 1], padding: [1, 0, 1, 0] },
  inputs: { outputGradient: countUp(2 * 9) },
  at: 9 + 1,
  hit: { inputGradient: isIn(18, 10, 13) },
};

const repeated: RepeatedCall = {
  rest: { kind: "mean", inputShape: [1, 3, 200, 130], kernel: [14, 17], stride: [3, 1] },
  inputs: { outputGradient: 3 * 63 * 114 },
  outputs: { inputGradient: 3 * 200 * 130 },
};

const halving = { kind: "max", kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1] };
const pairs = { kind: "mean", kernel: [2, 2] };

const timedOf = (
  size: TimedCall["size"],
  name: string,
  layout: "NCHW" | "NHWC",
  batch: number,
  rest: Readonly<Record<string, unknown>>,
  copyShare?: number,
): TimedCall => {
  const inputShape = layout === "NCHW" ? [batch, 64, 112, 112] : [batch, 112, 112, 64];
  const inputGradient = product(inputShape);
  const windows = inputGradient / 4;
  const isMax = rest.kind === "max";
  return {
    ...{ size, name: `${name} of ${inputShape.join("x")}${layout === "NCHW" ? "" : " NHWC"}` },
    rest: { inputShape, ...(layout === "NCHW" ? {} : { layout }), ...rest },
    operands: { outputGradient: windows, ...(isMax ? { indices: windows } : {}), inputGradient },
    // Any places of the image: kernels take as long if these are in their windows.
    ...(isMax ? { types, below: { indices: 112 * 112 } } : {}),
    parts:
      layout === "NCHW"
        ? { count: batch * 64, rest: { inputShape: [1, 1, 112, 112] } }
        : { count: batch, rest: { inputShape: [1, 112, 112, 64] } },
    ...(copyShare === undefined ? {} : { copyShare }),
  };
};

const timed: readonly TimedCall[] = [
  timedOf("small", "max 3x3 stride 2", "NCHW", 1, halving),
  timedOf("small", "mean 2x2", "NCHW", 1, pairs),
  timedOf("small", "max 3x3 stride 2", "NHWC", 1, halving),
  timedOf("large", "max 3x3 stride 2", "NCHW", 64, halving, 0.8),
  timedOf("large", "mean 2x2", "NCHW", 64, pairs, 0.8),
  timedOf("large", "max 3x3 stride 2", "NHWC", 64, halving, 0.8),
  timedOf("large", "mean 2x2", "NHWC", 64, pairs, 0.8),
];

export const pool2dGradient: TestedOperation<Pool2dGradientProblem<ReferenceMemory>> = {
  operation: operations.pool2dGradient,
  supports: [{ dtype: floatTypes }],
  ...{ evaluate, small, medium, poisoned, repeated, timed, draft, specialValues },
  /** Pixels of one channel of the results of pool2d; elements of a window; channels of all images. */
  shapeAxes: ["pixels", "window", "channels"],
  laws: pool2dGradientLaws,
  mutants: pool2dGradientMutants,
};
