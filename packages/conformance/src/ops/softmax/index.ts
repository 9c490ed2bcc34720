import { floatTypes, operations, type SoftmaxKind, type SoftmaxProblem, softmaxKinds } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import { timedAlong } from "../../kit/timed.js";
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
import { softmaxLaws, specialValues } from "./laws.js";
import { softmaxMutants } from "./mutants.js";

const small: SmallCall = {
  operands: { input: 12, output: 12 },
  rest: { kind: "softmax", shape: [3, 4] },
  inPlace: ["input"],
  malformed: [{ axis: 2 }, { axis: -3 }, { axis: 0.5 }, { axis: [1] }, { shape: [] }],
  nothing: [{ shape: [0, 4] }, { shape: [3, 0] }],
  tooLarge: [["input", { shape: [3, 1000] }]],
  // f16 may be off by a unit of results up to 1.
  allowed: 2 ** -11,
};

const inPlace = (n: number): Call => ({
  operands: { input: 4 * n, output: 4 * n },
  rest: { kind: "softmax", shape: [2, n, 2], axis: 1 },
});

const medium: Call = {
  operands: { input: 60_000, output: 60_000 },
  rest: { kind: "softmax", shape: [3, 20_000] },
};

const poisoned: PoisonedCall = {
  rest: { kind: "softmax", shape: [3, 11] },
  inputs: { input: countUp(3 * 11) },
  at: 11 + 6,
  hit: { output: isInRow(1, 3, 11) },
};

const repeated: RepeatedCall = {
  rest: { kind: "softmax", shape: [2 ** 17 + 5] },
  inputs: { input: 2 ** 17 + 5 },
  outputs: { output: 2 ** 17 + 5 },
};

/** Rows that fit into a workgroup of a GPU are read once, which leaves most of a copy's rate; others are read twice. */
const timed: readonly TimedCall[] = [
  timedAlong("softmax", ["small", "1024x1024", [1024, 1024], 1]),
  timedAlong("softmax", ["small", "1024x1024 along columns", [1024, 1024], 0]),
  ...softmaxKinds.map((kind) => timedAlong(kind, ["peers", "4096x1024", [4096, 1024], 1])),
  timedAlong("softmax", ["large", "16384x4096", [16_384, 4096], 1], 0.8),
  timedAlong("softmax", ["large", "1Mx64", [2 ** 20, 64], 1], 0.8),
  timedAlong("logSoftmax", ["large", "16384x4096", [16_384, 4096], 1], 0.85),
  timedAlong("logSoftmax", ["large", "1Mx64", [2 ** 20, 64], 1], 0.85),
  timedAlong("softmax", ["large", "64x1M", [64, 2 ** 20], 1], 0.55),
  timedAlong("softmax", ["large", "4096x16384 along columns", [4096, 16_384], 0], 0.55),
  timedAlong("softmax", ["large", "64x256x4096 along the middle", [64, 256, 4096], 1], 0.8),
];

const draft: Draw = (dice, limits, dtype) => {
  const kind = dice.pick<SoftmaxKind>(softmaxKinds);
  const inner = dice.size(limits.elements);
  const length = dice.size(limits.elements / inner);
  const outer = dice.size(limits.elements / inner / length);
  const count = outer * length * inner;
  return {
    rest: { kind, shape: [outer, length, inner], axis: dice.pick([-1, 0, 1]), dtype },
    inputs: { input: count },
    outputs: { output: count },
    ...(dice.next() < 0.3 ? { inPlace: "input" } : {}),
    range: ({ input }) =>
      kind === "softmax" ? within(1.01) : within(1.01 * (2 * magnitude(input!) + Math.log(count)) + 0.01),
  };
};

export const softmax: TestedOperation<SoftmaxProblem<ReferenceMemory>> = {
  operation: operations.softmax,
  supports: [{ dtype: floatTypes }],
  ...{ evaluate, small, medium, poisoned, repeated, inPlace, timed, draft, specialValues },
  /** Elements along the axis; rows. */
  shapeAxes: ["length", "rows"],
  laws: softmaxLaws,
  mutants: softmaxMutants,
};
