import { type GatherProblem, gatherTypes, operations } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { countUp, isIn } from "../../kit/values.js";
import type { Call, PoisonedCall, SmallCall, TestedOperation, TimedCall } from "../operation.js";
import { evaluate } from "./formula.js";
import { gatherLaws } from "./laws.js";
import { gatherMutants } from "./mutants.js";

const types = { indices: "i32" } as const;

/** As many indices as results, some of which are out of range. */
const small: SmallCall = {
  operands: { input: 24, indices: 16, output: 16 },
  types,
  rest: { shape: [2, 3, 4], axis: 1, indexShape: [2, 2, 4] },
  malformed: [
    ...[{ axis: 3 }, { axis: -4 }, { shape: [] }, { shape: [], indexShape: [] }],
    ...[{ indexShape: [] }, { indexShape: [2, 4] }, { indexShape: [2, 2, 4, 1] }],
    ...[{ indexShape: [3, 2, 4] }, { indexShape: [2, 2, 3] }, { indexShape: [0, 2, 4] }],
  ],
  nothing: [
    ...[{ indexShape: [2, 0, 4] }, { shape: [0, 3, 4], indexShape: [0, 2, 4] }],
    ...[
      { shape: [2, 3, 0], indexShape: [2, 2, 1] },
      { shape: [2, 0, 4], indexShape: [2, 0, 4] },
    ],
  ],
  tooLarge: [
    ["input", { shape: [2, 300, 4] }],
    ["indices", { indexShape: [2, 300, 4] }],
    ["output", { indexShape: [1, 16, 1] }],
  ],
};

const medium: Call = {
  operands: { input: 60_000, indices: 20_000, output: 60_000 },
  types,
  rest: { shape: [20_000, 3], indexShape: [20_000, 1] },
};

const poisoned: PoisonedCall = {
  rest: { shape: [5, 3], indexShape: [4, 1] },
  inputs: { input: countUp(15), indices: [2, 4, 2, 1] },
  types,
  at: 7,
  hit: { output: isIn(12, 1, 7) },
};

const timedOf = (
  size: TimedCall["size"],
  name: string,
  [rows, row]: readonly [number, number],
  rest: { readonly axis: number; readonly indexShape: readonly [number, number] },
  copyShare?: number,
): TimedCall => {
  const [first, last] = rest.indexShape;
  const indices = first * last;
  return {
    ...{ size, name, rest: { shape: [rows, row], ...rest }, types },
    operands: { input: rows * row, indices, output: rest.axis === 0 ? first * row : indices },
    below: { indices: rest.axis === 0 ? rows : row },
    ...(copyShare === undefined ? {} : { copyShare }),
  };
};

const timed: readonly TimedCall[] = [
  timedOf("small", "1024 of 5000x256", [5000, 256], { axis: 0, indexShape: [1024, 1] }),
  timedOf("small", "1024x1024 along rows", [1024, 1024], { axis: 1, indexShape: [1024, 1024] }),
  timedOf("peers", "16384 of 50257x256", [50_257, 256], { axis: 0, indexShape: [16_384, 1] }),
  timedOf("peers", "4096x1024 along rows", [4096, 1024], { axis: 1, indexShape: [4096, 1024] }),
  timedOf("large", "16384 of 50257x1024", [50_257, 1024], { axis: 0, indexShape: [16_384, 1] }, 0.8),
  timedOf("large", "4096x16384 along rows", [4096, 16_384], { axis: 1, indexShape: [4096, 16_384] }),
];

const draft: Draw = (dice, limits, dtype) => {
  const inner = dice.size(limits.elements);
  const length = dice.size(limits.elements / inner);
  const outer = dice.size(limits.elements / inner / length);
  const count = dice.size(limits.elements / inner / outer);
  const indexShape = [dice.pick([1, outer]), count, dice.pick([1, inner])];
  return {
    rest: { shape: [outer, length, inner], axis: dice.pick([1, -2]), indexShape, dtype },
    inputs: { input: outer * length * inner, indices: indexShape.reduce((a, b) => a * b) },
    integers: { indices: { low: dice.pick([0, -2]), high: length } },
    outputs: { output: outer * count * inner },
    range: ({ input }) => ({ low: Math.min(0, input!.low), high: Math.max(0, input!.high) }),
  };
};

export const gather: TestedOperation<GatherProblem<ReferenceMemory>> = {
  operation: operations.gather,
  supports: [{ dtype: gatherTypes }],
  ...{ evaluate, small, medium, poisoned, timed, draft },
  /** Elements that one index brings; results. */
  shapeAxes: ["row", "results"],
  laws: gatherLaws,
  mutants: gatherMutants,
};
