import { type CopyProblem, dtypes, operations } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
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

const timedOf = (
  size: TimedCall["size"],
  name: string,
  shape: readonly number[],
  input: { readonly elements: number; readonly strides: readonly number[] },
  copyShare?: number,
): TimedCall => ({
  ...{ size, name: `copy ${name}`, rest: { shape, inputStrides: input.strides } },
  operands: { input: input.elements, output: shape.reduce((product, extent) => product * extent, 1) },
  ...(copyShare === undefined ? {} : { copyShare }),
});

const M = 2 ** 20;

const timed: readonly TimedCall[] = [
  timedOf("small", "transpose 1024x1024", [1024, 1024], { elements: M, strides: [1, 1024] }),
  timedOf("small", "0213 16x64x32x64", [16, 32, 64, 64], {
    ...{ elements: 2 * M, strides: [131_072, 64, 2048, 1] },
  }),
  timedOf("small", "slice 1000 of 1024 columns", [1024, 1000], { elements: M, strides: [1024, 1] }),
  timedOf("large", "transpose 4096x16384", [16_384, 4096], { elements: 64 * M, strides: [1, 16_384] }, 0.8),
  timedOf(
    ...(["large", "NCHW to NHWC 64x256x64x64", [64, 4096, 256]] as const),
    { elements: 64 * M, strides: [M, 1, 4096] },
    0.8,
  ),
  timedOf(
    ...(["large", "0213 64x128x128x64", [64, 128, 128, 64]] as const),
    { elements: 64 * M, strides: [M, 64, 8192, 1] },
    0.8,
  ),
  timedOf(
    ...(["large", "slice 4000 of 4096 columns", [16_384, 4000]] as const),
    { elements: 64 * M, strides: [4096, 1] },
    0.85,
  ),
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
  /** Elements, and the number of axes that are left when neighbours are merged. */
  shapeAxes: ["elements", "axes"],
  laws: copyLaws,
  mutants: copyMutants,
};
