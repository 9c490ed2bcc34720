import {
  type ArgReduceKind,
  type ArgReduceProblem,
  argReduceKinds,
  floatTypes,
  integerTypes,
  operations,
} from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { within } from "../../kit/range.js";
import { timedOver } from "../../kit/timed.js";
import type { Call, SmallCall, TestedOperation, TimedCall } from "../operation.js";
import { evaluate } from "./formula.js";
import { argReduceLaws, specialValues } from "./laws.js";
import { argReduceMutants } from "./mutants.js";

const types = { output: "i32" } as const;

const small: SmallCall = {
  types,
  operands: { input: 12, output: 3 },
  rest: { kind: "argMax", shape: [3, 4] },
  malformed: [{ axis: 2 }, { axis: -3 }, { shape: [] }, { shape: [3, 0] }, { shape: [1, 2 ** 31 + 1] }],
  nothing: [{ shape: [0, 4] }, { shape: [0, 0] }, { shape: [4, 0], axis: 0 }],
  tooLarge: [
    ["input", { shape: [3, 1000] }],
    ["output", { shape: [12, 1] }],
  ],
};

const medium: Call = {
  types,
  operands: { input: 60_000, output: 3 },
  rest: { kind: "argMax", shape: [3, 20_000] },
};

const timed: readonly TimedCall[] = [
  timedOver("argMax", ["small", "1024x1024", [1024, 1024], 1]),
  timedOver("argMax", ["small", "1024x1024 along columns", [1024, 1024], 0]),
  timedOver("argMax", ["peers", "4096x4096", [4096, 4096], 1]),
  timedOver("argMax", ["large", "16384x4096", [16_384, 4096], 1], 0.85),
  timedOver("argMax", ["large", "1Mx64", [2 ** 20, 64], 1], 0.85),
  timedOver("argMax", ["large", "64x1M", [64, 2 ** 20], 1], 0.85),
  timedOver("argMax", ["large", "4096x16384 along columns", [4096, 16_384], 0], 0.85),
].map((call) => ({ ...call, types }));

const draft: Draw = (dice, limits, dtype) => {
  const kind = dice.pick<ArgReduceKind>(argReduceKinds);
  const inner = dice.size(limits.elements);
  const length = dice.size(limits.elements / inner);
  const outer = dice.size(limits.elements / inner / length);
  return {
    rest: { kind, shape: [outer, length, inner], axis: 1, dtype },
    types,
    inputs: { input: outer * length * inner },
    outputs: { output: outer * inner },
    range: () => within(length),
  };
};

export const argReduce: TestedOperation<ArgReduceProblem<ReferenceMemory>> = {
  operation: operations.argReduce,
  supports: [{ dtype: [...floatTypes, ...integerTypes] }],
  ...{ evaluate, small, medium, timed, draft, specialValues },
  /** Elements along the axis; rows. */
  shapeAxes: ["length", "rows"],
  laws: argReduceLaws,
  mutants: argReduceMutants,
};
