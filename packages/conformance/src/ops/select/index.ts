import { type MapProblem, operations, selectTypes } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { countUp } from "../../kit/values.js";
import { evaluate } from "../map/formula.js";
import type { Call, PoisonedCall, SmallCall, TestedOperation, TimedCall } from "../operation.js";
import { selectLaws } from "./laws.js";
import { selectMutants } from "./mutants.js";

const types = { condition: "u8" } as const;

const small: SmallCall = {
  operands: { condition: 16, a: 16, b: 16, output: 16 },
  types,
  rest: { n: 16 },
  inPlace: ["a", "b"],
  malformed: [
    ...[{ shapeA: [16] }, { n: undefined }, { n: undefined, conditionShape: [16] }],
    ...[
      { n: undefined, conditionShape: [16], shapeA: [15], shapeB: [16] },
      { n: undefined, conditionShape: [16], shapeA: [16], shapeB: [4, 3] },
      { n: undefined, conditionShape: [16], shapeA: [16], shapeB: [16], outputShape: [4, 4] },
    ],
    ...[
      { a: { scalar: Number.NaN } },
      { a: { scalar: 1 }, shapeA: [16], conditionShape: [16], n: undefined },
    ],
  ],
  nothing: [{ n: 0 }, { n: undefined, conditionShape: [4, 0], shapeA: [], shapeB: [1, 1] }],
  tooLarge: [
    ["condition", { n: undefined, conditionShape: [120], shapeA: [1], shapeB: [1] }],
    ["a", { n: undefined, conditionShape: [1], shapeA: [120], shapeB: [1] }],
    ["b", { n: undefined, conditionShape: [1], shapeA: [1], shapeB: [120] }],
    ["output", { n: undefined, conditionShape: [1, 16], shapeA: [16, 1], shapeB: [1] }],
  ],
};

const medium: Call = {
  operands: { condition: 200, a: 300, b: 60_000, output: 60_000 },
  types,
  rest: { conditionShape: [200, 1], shapeA: [300], shapeB: [200, 300] },
};

const inPlace = (n: number): Call => ({
  operands: { condition: n, a: n, b: n, output: n },
  types,
  rest: { n },
});

const poisoned: PoisonedCall = {
  rest: { conditionShape: [3, 4], shapeA: [3, 1], shapeB: [4] },
  inputs: { a: countUp(3), condition: countUp(12).map((i) => (i % 3 === 0 ? 0 : i)), b: countUp(4) },
  types,
  at: 1,
  hit: { output: countUp(12).map((value, i) => i >= 4 && i < 8 && value % 3 !== 0) },
};

const timedOf = (size: TimedCall["size"], n: number): TimedCall => ({
  ...{ size, name: `${n}`, copyShare: 0.9, elementwise: true, types, below: { condition: 2 } },
  operands: { condition: n, a: n, b: n, output: n },
  rest: { n },
});

const timed: readonly TimedCall[] = [
  timedOf("small", 2 ** 20),
  timedOf("peers", 2 ** 24),
  timedOf("large", 2 ** 26),
];

const draft: Draw = (dice, limits, dtype) => {
  const columns = dice.size(limits.elements);
  const rows = dice.size(limits.elements / columns);
  const n = rows * columns;
  return {
    rest: { conditionShape: [rows, 1], shapeA: [rows, columns], shapeB: [columns], dtype },
    inputs: { condition: rows, a: n, b: columns },
    integers: { condition: { low: 0, high: 2 } },
    outputs: { output: n },
    range: ({ a, b }) => ({ low: Math.min(a!.low, b!.low), high: Math.max(a!.high, b!.high) }),
  };
};

export const select: TestedOperation<MapProblem<ReferenceMemory>> = {
  operation: operations.select,
  supports: [{ dtype: selectTypes }],
  ...{ evaluate, small, medium, poisoned, inPlace, timed, draft },
  shapeAxes: ["outputs", "smallest"],
  laws: selectLaws,
  mutants: selectMutants,
};
