import { type CopyProblem, dtypes, operations } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { product } from "../../kit/shapes.js";
import { countUp, isIn } from "../../kit/values.js";
import type { Call, PoisonedCall, SmallCall, TestedOperation, TimedCall } from "../operation.js";
import { evaluate } from "./formula.js";
import { copyLaws } from "./laws.js";
import { copyMutants } from "./mutants.js";

/** A transposition. */
const small: SmallCall = {
  operands: { input: 12, output: 12 },
  rest: { shape: [3, 4], inputStrides: [1, 3] },
  malformed: [
    { shape: [1, 1, 1, 1, 1, 1, 1, 3, 4], inputStrides: [1, 1, 1, 1, 1, 1, 1, 1, 3] },
    { outputStrides: [4] },
    { outputStrides: [4, 0] },
    { outputStrides: [3, 1] },
    { outputStrides: [1, 2] },
    { outputStrides: [-3, 1] },
    { outputDtype: "f64" },
  ],
  nothing: [{ shape: [0, 4] }, { shape: [3, 0] }, { shape: [0, 4], outputStrides: [0, 0] }],
  tooLarge: [
    ["input", { inputStrides: [1, 300] }],
    ["input", { inputStrides: [-1, 3] }],
    ["output", { outputStrides: [400, 1] }],
    ["output", { outputStrides: [4, -1] }],
  ],
};

const medium: Call = {
  operands: { input: 60_000, output: 60_000 },
  rest: { shape: [200, 300], inputStrides: [1, 200] },
};

/** Element (i, j) is read at i + 3 j. */
const poisoned: PoisonedCall = {
  rest: { shape: [3, 4], inputStrides: [1, 3] },
  inputs: { input: countUp(12) },
  at: 5,
  hit: { output: isIn(12, 2 * 4 + 1) },
};

type Timed = Pick<TimedCall, "before" | "results" | "copyShare"> & {
  readonly shape: readonly number[];
  readonly inputStrides?: readonly number[];
  readonly outputStrides?: readonly number[];
  readonly outputDtype?: "f16" | "i32";
  /** Elements of the operands. Default: as many as the shape has. */
  readonly input?: number;
  readonly output?: number;
};

function timedOf(size: TimedCall["size"], name: string, timed: Timed): TimedCall {
  const { before, results, copyShare, input, output, ...rest } = timed;
  return {
    ...{ size, name, rest },
    operands: { input: input ?? product(rest.shape), output: output ?? product(rest.shape) },
    ...(before === undefined ? {} : { before }),
    ...(results === undefined ? {} : { results }),
    ...(copyShare === undefined ? {} : { copyShare }),
  };
}

/** Results in the first columns, from one on, of rows of another width. */
function columnsOf(rows: number, columns: number, width: number, first: number): Timed {
  return {
    ...{ shape: [rows, columns], outputStrides: [width, 1], output: rows * width },
    ...(first === 0 ? {} : { before: { output: first } }),
    results: {
      count: rows * columns,
      place: (index) => Math.floor(index / columns) * width + (index % columns),
    },
  };
}

/** Shapes of 256 MiB are large. */
const timed: readonly TimedCall[] = [
  timedOf("small", "transpose 1024x1024", { shape: [1024, 1024], inputStrides: [1, 1024] }),
  timedOf("small", "0213 16x64x32x64", {
    ...{ shape: [16, 32, 64, 64], inputStrides: [131_072, 64, 2048, 1] },
  }),
  timedOf("small", "NCHW to NHWC 4x64x64x64", { shape: [4, 4096, 64], inputStrides: [262_144, 1, 4096] }),
  timedOf("small", "slice 1000 of 1024 columns", {
    ...{ shape: [1024, 1000], inputStrides: [1024, 1], input: 2 ** 20 },
  }),
  timedOf("small", "flip 1024x1024", {
    ...{ shape: [1024, 1024], inputStrides: [1024, -1], before: { input: 1023 } },
  }),
  timedOf("small", "f32 to f16", { shape: [2 ** 20], outputDtype: "f16" }),
  timedOf("peers", "transpose 2048x2048", { shape: [2048, 2048], inputStrides: [1, 2048] }),
  timedOf("peers", "NCHW to NHWC 4x64x128x128", {
    ...{ shape: [4, 16_384, 64], inputStrides: [2 ** 20, 1, 16_384] },
  }),
  timedOf("large", "transpose 4096x16384", {
    ...{ shape: [16_384, 4096], inputStrides: [1, 16_384], copyShare: 0.8 },
  }),
  timedOf("large", "NCHW to NHWC 64x256x64x64", {
    ...{ shape: [64, 4096, 256], inputStrides: [2 ** 20, 1, 4096], copyShare: 0.8 },
  }),
  timedOf("large", "0213 64x128x128x64", {
    ...{ shape: [64, 128, 128, 64], inputStrides: [2 ** 20, 64, 8192, 1], copyShare: 0.8 },
  }),
  timedOf("large", "slice 4000 of 4096 columns", {
    ...{ shape: [16_384, 4000], inputStrides: [4096, 1], input: 2 ** 26, copyShare: 0.85 },
  }),
  timedOf("large", "half of a concatenation of columns", {
    ...columnsOf(16_384, 2048, 4096, 0),
    copyShare: 0.85,
  }),
  timedOf("large", "pad by 1", { ...columnsOf(16_384, 4096, 4098, 1), copyShare: 0.85 }),
  timedOf("large", "flip 16384x4096", {
    ...{ shape: [16_384, 4096], inputStrides: [4096, -1], before: { input: 4095 }, copyShare: 0.85 },
  }),
  timedOf("large", "f32 to f16", { shape: [2 ** 26], outputDtype: "f16", copyShare: 0.85 }),
  timedOf("large", "f32 to i32", { shape: [2 ** 26], outputDtype: "i32", copyShare: 0.85 }),
];

const draft: Draw = (dice, limits, dtype) => {
  const side = Math.cbrt(limits.elements / 2);
  const shape = [dice.size(side), dice.size(side), dice.size(side)];
  const order = dice.pick([
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
  ]);
  /** Strides of the shape with its axes in an order, and the last of them with a step. */
  const stridesIn = (places: readonly number[], step: number): { strides: number[]; count: number } => {
    const strides = [0, 0, 0];
    let count = step;
    for (const axis of places.toReversed()) {
      strides[axis] = count;
      count *= shape[axis]!;
    }
    return { strides, count };
  };
  const step = dice.next() < 0.3 ? 2 : 1;
  const input = stridesIn(order, 1);
  const output = stridesIn([0, 1, 2], step);
  return {
    rest: {
      shape,
      inputStrides: input.strides,
      ...(step > 1 ? { outputStrides: output.strides } : {}),
      dtype,
    },
    inputs: { input: input.count },
    outputs: { output: output.count },
    keepsOutputs: step > 1,
    range: ({ input: read, output: kept }) =>
      step === 1 || kept === undefined
        ? read
        : { low: Math.min(read!.low, kept.low), high: Math.max(read!.high, kept.high) },
  };
};

export const copy: TestedOperation<CopyProblem<ReferenceMemory>> = {
  operation: operations.copy,
  supports: [{ dtype: dtypes, outputDtype: true }],
  ...{ evaluate, small, medium, poisoned, timed, draft },
  /** Elements, and the number of axes. */
  shapeAxes: ["elements", "axes"],
  laws: copyLaws,
  mutants: copyMutants,
};
