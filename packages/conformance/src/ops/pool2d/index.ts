import { floatTypes, operations, type Pool2dProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
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
import { pool2dLaws, specialValues } from "./laws.js";
import { pool2dMutants } from "./mutants.js";

const types = { indices: "i32" } as const;

const small: SmallCall = {
  operands: { input: 40, output: 12 },
  rest: { kind: "max", inputShape: [1, 2, 4, 5], kernel: [2, 2], stride: [1, 2] },
  malformed: [
    ...[{ kernel: [0, 2] }, { kernel: [5, 2] }, { stride: [0, 1] }, { dilation: [4, 1] }],
    ...[{ outputShape: [1, 2, 3, 3] }, { layout: "NWCH" }, { countPadding: true }],
    // Windows that meet no element: before the input, and behind it.
    ...[{ padding: [2, 0, 0, 0] }, { padding: [0, 0, 0, 5] }],
    ...[{ padding: [2 ** 30, 0, 0, 0] }, { padding: [0, 2 ** 53 - 1, 0, 2 ** 53 - 1] }],
  ],
  nothing: [{ inputShape: [0, 2, 4, 5] }, { inputShape: [1, 0, 4, 5] }],
  tooLarge: [
    ["input", { inputShape: [1000, 2, 4, 5] }],
    ["output", { padding: [1, 1, 1, 1], stride: [1, 1] }],
  ],
};

const medium: Call = {
  types,
  operands: { input: 3 * 60 * 110, output: 3 * 30 * 55, indices: 3 * 30 * 55 },
  rest: { kind: "max", inputShape: [1, 3, 60, 110], kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1] },
};

const poisoned: PoisonedCall = {
  rest: { kind: "mean", inputShape: [2, 1, 3, 3], kernel: [3, 1], stride: [1, 1], padding: [1, 0, 1, 0] },
  inputs: { input: countUp(2 * 9) },
  at: 9 + 4,
  hit: { output: isIn(18, 10, 13, 16) },
};

const repeated: RepeatedCall = {
  rest: { kind: "mean", inputShape: [1, 3, 200, 130], kernel: [14, 17], stride: [3, 1] },
  inputs: { input: 3 * 200 * 130 },
  outputs: { output: 3 * 63 * 114 },
};

type Shape = readonly [number, number, number, number];

const timedOf = (
  size: TimedCall["size"],
  name: string,
  inputShape: Shape,
  rest: Readonly<Record<string, unknown>>,
  copyShare?: number,
): TimedCall => {
  const [batch, channels, height, width] = inputShape;
  return {
    ...{ size, name, rest: { inputShape, ...rest } },
    operands: {
      input: batch * channels * height * width,
      output: batch * channels * (height / 2) * (width / 2),
    },
    parts: { count: batch * channels, rest: { inputShape: [1, 1, height, width] } },
    ...(copyShare === undefined ? {} : { copyShare }),
  };
};

const halving = { kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1] };
const pairs = { kernel: [2, 2] };

const timed: readonly TimedCall[] = [
  timedOf("small", "max 3x3 stride 2 of 1x64x112x112", [1, 64, 112, 112], { kind: "max", ...halving }),
  timedOf("small", "mean 2x2 of 1x64x112x112", [1, 64, 112, 112], { kind: "mean", ...pairs }),
  timedOf("peers", "max 3x3 stride 2 of 4x64x112x112", [4, 64, 112, 112], { kind: "max", ...halving }),
  timedOf("peers", "mean 2x2 of 4x64x112x112", [4, 64, 112, 112], { kind: "mean", ...pairs }),
  timedOf("large", "max 3x3 stride 2 of 64x64x112x112", [64, 64, 112, 112], { kind: "max", ...halving }, 0.8),
  timedOf("large", "mean 2x2 of 64x64x112x112", [64, 64, 112, 112], { kind: "mean", ...pairs }, 0.8),
];

export const pool2d: TestedOperation<Pool2dProblem<ReferenceMemory>> = {
  operation: operations.pool2d,
  supports: [{ dtype: floatTypes }],
  ...{ evaluate, small, medium, poisoned, repeated, timed, draft, specialValues },
  /** Output pixels of one channel; elements of a window; channels of all images. */
  shapeAxes: ["pixels", "window", "channels"],
  laws: pool2dLaws,
  mutants: pool2dMutants,
};
