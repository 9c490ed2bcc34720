import type { MapNode } from "@backplane/core";
import type { Draw } from "../../kit/draft.js";
import { countUp } from "../../kit/values.js";
import type { Call, PoisonedCall, SmallCall, TimedCall } from "../operation.js";

/** outputs[0] = inputs[0] inputs[1], outputs[1] = max(inputs[0], inputs[1]) - parameters[0]. */
const nodes: readonly MapNode[] = [
  { input: 0 },
  { input: 1 },
  { binary: "mul", a: 0, b: 1 },
  { binary: "max", a: 0, b: 1 },
  { parameter: 0 },
  { binary: "sub", a: 3, b: 4 },
];

const rest = { nodes, results: [2, -1], parameters: [3] };

const withNode = (node: object) => ({ nodes: [...nodes, node] });

export const small: SmallCall = {
  operands: { "inputs[0]": 24, "inputs[1]": 24, "outputs[0]": 24, "outputs[1]": 24 },
  rest: { ...rest, shape: [2, 3, 4] },
  inPlace: ["inputs[0]", "inputs[1]"],
  malformed: [
    ...[{ shape: Array(9).fill(1) }, { inputShapes: [[3]] }, { inputShapes: [[3], [4]] }],
    ...[{ inputShapes: [[1, 2, 3, 4], undefined] }, { inputTypes: ["f32"] }, { outputTypes: ["u8", "u8"] }],
    ...[
      { results: [2] },
      { results: [2, 6] },
      { results: [2, -7] },
      { parameters: [] },
      { parameters: [1, Number.NaN] },
    ],
    ...[{ input: 2 }, { parameter: 1 }, { constant: Number.NaN }, { index: 3 }].map(withNode),
    ...[{ unary: "noSuchKind", x: 0 }, { unary: "exp", x: 6 }, { unary: "exp", x: -1 }, { unary: "exp" }].map(
      withNode,
    ),
    ...[
      { binary: "add", a: 0, b: 7 },
      { binary: "add", a: 0 },
      { select: 0, a: 0, b: 0 },
    ].map(withNode),
    ...[
      { convert: "f16", x: 0 },
      { convert: "i32", x: 6 },
      { parameter: 0, type: "i32" },
    ].map(withNode),
    ...[
      { unary: "exp", x: 0, input: 0 },
      { constant: 0.5, type: "i32" },
      { input: 0, axis: 1 },
    ].map(withNode),
  ],
  nothing: [{ shape: [2, 0, 4] }, { shape: [0], inputShapes: [[1], undefined] }],
  tooLarge: [
    ["inputs[0]", { shape: [2, 30, 4] }],
    ["inputs[1]", { shape: [2, 30, 4], inputShapes: [[4], undefined] }],
    ["outputs[0]", { shape: [2, 30, 4], inputShapes: [[4], [1]] }],
  ],
};

export const medium: Call = {
  operands: { "inputs[0]": 60_000, "inputs[1]": 300, "outputs[0]": 60_000, "outputs[1]": 60_000 },
  rest: { ...rest, shape: [200, 300], inputShapes: [undefined, [300]] },
};

export const inPlace = (n: number): Call => ({
  operands: { "inputs[0]": n, "inputs[1]": n, "outputs[0]": n },
  rest: { ...rest, results: [5], shape: [n] },
});

export const poisoned: PoisonedCall = {
  rest: { nodes, results: [2, 5], parameters: [3], shape: [3, 4], inputShapes: [[3, 1], undefined] },
  inputs: { "inputs[0]": countUp(3), "inputs[1]": countUp(12) },
  at: 1,
  hit: {
    "outputs[0]": countUp(12).map((_, i) => i >= 4 && i < 8),
    "outputs[1]": countUp(12).map((_, i) => i >= 4 && i < 8),
  },
};

/** y = max(u sigmoid(u) + 1/2, 0) with u = (x - p) q: six functions. */
export const chain: readonly MapNode[] = [
  { input: 0 },
  { parameter: 0 },
  { binary: "sub", a: 0, b: 1 },
  { parameter: 1 },
  { binary: "mul", a: 2, b: 3 },
  { unary: "sigmoid", x: 4 },
  { binary: "mul", a: 4, b: 5 },
  { constant: 0.5 },
  { binary: "add", a: 6, b: 7 },
  { unary: "relu", x: 8 },
];

/**
 * Adam (D. Kingma and J. Ba, 2015, algorithm 1) in one pass: weight, gradient and both moments in, weight and both moments
 * out. Parameters: beta1, 1 - beta1, beta2, 1 - beta2, rate / (1 - beta1^t), 1 / (1 - beta2^t), epsilon.
 */
export const adam: readonly MapNode[] = [
  ...[0, 1, 2, 3].map((input) => ({ input })),
  ...[0, 1, 2, 3, 4, 5, 6].map((parameter) => ({ parameter })),
  { binary: "mul", a: 2, b: 4 },
  { binary: "mul", a: 1, b: 5 },
  { binary: "add", a: 11, b: 12 },
  { binary: "mul", a: 3, b: 6 },
  { binary: "mul", a: 1, b: 1 },
  { binary: "mul", a: 15, b: 7 },
  { binary: "add", a: 14, b: 16 },
  // A second moment is not negative, but random numbers of tests and benchmarks are.
  { unary: "abs", x: 17 },
  { binary: "mul", a: 18, b: 9 },
  { unary: "sqrt", x: 19 },
  { binary: "add", a: 20, b: 10 },
  { binary: "div", a: 13, b: 21 },
  { binary: "mul", a: 22, b: 8 },
  { binary: "sub", a: 0, b: 23 },
];

/** The results of `adam`: weight and both moments. */
export const adamResults: readonly number[] = [24, 13, 17];

export const adamNumbers: readonly number[] = [0.9, 0.1, 0.999, 0.001, 0.0019, 200, 1e-8];

const timedChain = (size: TimedCall["size"], n: number): TimedCall => ({
  ...{ size, name: `chain of six, ${n}`, copyShare: 0.9, elementwise: true },
  operands: { "inputs[0]": n, "outputs[0]": n },
  rest: { shape: [n], nodes: chain, results: [-1], parameters: [0.25, 2] },
});

const timedAdam = (size: TimedCall["size"], n: number): TimedCall => ({
  ...{ size, name: `Adam, ${n}`, copyShare: 0.9, elementwise: true },
  operands: Object.fromEntries([
    ...[0, 1, 2, 3].map((i) => [`inputs[${i}]`, n]),
    ...[0, 1, 2].map((i) => [`outputs[${i}]`, n]),
  ]),
  rest: { shape: [n], nodes: adam, results: adamResults, parameters: adamNumbers },
});

export const timed: readonly TimedCall[] = [
  ...[timedChain("small", 2 ** 20), timedAdam("small", 2 ** 20)],
  ...[timedChain("large", 2 ** 26), timedAdam("large", 2 ** 26)],
];

export const draft: Draw = (dice, limits, dtype) => {
  const columns = dice.size(limits.elements);
  const rows = dice.size(limits.elements / columns);
  const n = rows * columns;
  return {
    rest: {
      ...{ shape: [rows, columns], inputShapes: [undefined, [columns]], parameters: [dice.below(8) - 4] },
      ...{ nodes, results: [3, 5], dtype },
    },
    inputs: { "inputs[0]": n, "inputs[1]": columns },
    outputs: { "outputs[0]": n, "outputs[1]": n },
    range: (ranges) => {
      const [a, b] = [ranges["inputs[0]"]!, ranges["inputs[1]"]!];
      return { low: Math.max(a.low, b.low) - 4, high: Math.max(a.high, b.high) + 4 };
    },
  };
};
