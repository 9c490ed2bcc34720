import {
  floatTypes,
  integerTypes,
  operations,
  type ScanKind,
  type ScanProblem,
  scanKinds,
} from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import { timedAlong } from "../../kit/timed.js";
import { countUp, isIn } from "../../kit/values.js";
import type {
  Call,
  PoisonedCall,
  RepeatedCall,
  SmallCall,
  TestedOperation,
  TimedCall,
} from "../operation.js";
import { evaluate } from "./formula.js";
import { scanLaws, specialValues } from "./laws.js";
import { scanMutants } from "./mutants.js";

const small: SmallCall = {
  operands: { input: 12, output: 12 },
  rest: { kind: "sum", shape: [3, 4] },
  malformed: [{ axis: 2 }, { axis: -3 }, { shape: [] }],
  nothing: [{ shape: [0, 4] }, { shape: [3, 0] }, { shape: [4, 0], axis: 0 }],
  tooLarge: [["input", { shape: [3, 1000] }]],
};

const medium: Call = {
  operands: { input: 60_000, output: 60_000 },
  rest: { kind: "sum", shape: [3, 20_000] },
};

/** An element is in its own result and in those after it. */
const poisoned: PoisonedCall = {
  rest: { kind: "sum", shape: [3, 11] },
  inputs: { input: countUp(3 * 11) },
  at: 11 + 6,
  hit: { output: isIn(3 * 11, 17, 18, 19, 20, 21) },
};

const repeated: RepeatedCall = {
  rest: { kind: "sum", shape: [2 ** 17 + 5] },
  inputs: { input: 2 ** 17 + 5 },
  outputs: { output: 2 ** 17 + 5 },
};

/** Rows that a workgroup of a GPU holds are read once; others twice, which leaves two thirds of a copy's rate at best. */
const timed: readonly TimedCall[] = [
  timedAlong("sum", ["small", "1024x1024", [1024, 1024], 1]),
  timedAlong("sum", ["small", "1024x1024 along columns", [1024, 1024], 0]),
  timedAlong("sum", ["peers", "4096x1024", [4096, 1024], 1]),
  timedAlong("sum", ["large", "16384x4096", [16_384, 4096], 1], 0.55),
  timedAlong("sum", ["large", "1Mx64", [2 ** 20, 64], 1], 0.55),
  timedAlong("sum", ["large", "64x1M", [64, 2 ** 20], 1], 0.55),
  timedAlong("sum", ["large", "4096x16384 along columns", [4096, 16_384], 0], 0.55),
];

const draft: Draw = (dice, limits, dtype) => {
  const kind = dice.pick<ScanKind>(scanKinds);
  const inner = dice.size(limits.elements);
  // Products of many numbers overflow.
  const length = kind === "prod" ? 1 + dice.below(3) : dice.size(limits.elements / inner);
  const outer = dice.size(limits.elements / inner / length);
  const count = outer * length * inner;
  // Infinity begins an exclusive maximum.
  const exclusive = (kind === "sum" || kind === "prod") && dice.next() < 0.5;
  return {
    rest: { kind, shape: [outer, length, inner], axis: 1, exclusive, reverse: dice.next() < 0.5, dtype },
    inputs: { input: count },
    outputs: { output: count },
    range({ input }) {
      const bound = magnitude(input!);
      if (kind === "prod") return within(Math.max(bound, 1) ** length);
      return within(kind === "sum" ? bound * length : bound);
    },
  };
};

export const scan: TestedOperation<ScanProblem<ReferenceMemory>> = {
  operation: operations.scan,
  supports: [{ dtype: [...floatTypes, ...integerTypes] }],
  ...{ evaluate, small, medium, poisoned, repeated, timed, draft, specialValues },
  /** Elements along the axis; rows. */
  shapeAxes: ["length", "rows"],
  laws: scanLaws,
  mutants: scanMutants,
};
