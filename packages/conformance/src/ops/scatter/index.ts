import { operations, type ScatterProblem, scatterKinds, scatterTypes } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import { countUp, isIn } from "../../kit/values.js";
import type { Call, PoisonedCall, SmallCall, TestedOperation, TimedCall } from "../operation.js";
import { evaluate } from "./formula.js";
import { scatterLaws } from "./laws.js";
import { scatterMutants } from "./mutants.js";

const types = { indices: "i32" } as const;

/** As many indices as updates, some of which are out of range. */
const small: SmallCall = {
  operands: { indices: 16, updates: 16, output: 24 },
  types,
  rest: { kind: "set", shape: [2, 3, 4], axis: 1, indexShape: [2, 2, 4] },
  malformed: [
    ...[{ axis: 3 }, { axis: -4 }, { shape: [] }, { shape: [], indexShape: [] }],
    ...[{ indexShape: [] }, { indexShape: [2, 4] }, { indexShape: [2, 2, 4, 1] }],
    ...[{ indexShape: [3, 2, 4] }, { indexShape: [2, 2, 3] }, { indexShape: [0, 2, 4] }],
  ],
  nothing: [
    ...[{ indexShape: [2, 0, 4] }, { shape: [0, 3, 4], indexShape: [0, 2, 4] }],
    ...[{ shape: [2, 3, 0], indexShape: [2, 2, 1] }, { shape: [2, 0, 4] }],
  ],
  tooLarge: [
    ["output", { shape: [2, 300, 4] }],
    ["indices", { indexShape: [2, 300, 4] }],
    ["updates", { indexShape: [1, 16, 1] }],
  ],
};

const medium: Call = {
  operands: { indices: 20_000, updates: 60_000, output: 60_000 },
  types,
  rest: { kind: "add", shape: [20_000, 3], indexShape: [20_000, 1] },
};

const poisoned: PoisonedCall = {
  rest: { kind: "set", shape: [4, 3], indexShape: [4, 1] },
  inputs: { updates: countUp(12), indices: [2, 0, 3, 1] },
  types,
  at: 7,
  hit: { output: isIn(12, 10) },
};

const timed: readonly TimedCall[] = (
  [
    ["small", "add", 1024, 5000, 256, undefined],
    ["peers", "add", 16_384, 4096, 256, undefined],
    ["large", "add", 16_384, 50_257, 1024, 0.33],
    ["large", "set", 16_384, 50_257, 1024, 0.33],
  ] as const
).map(([size, kind, count, length, inner, copyShare]) => ({
  ...{ size, name: `${kind} ${count} to ${length}x${inner}`, types, below: { indices: length } },
  rest: { kind, shape: [length, inner], indexShape: [count, 1] },
  operands: { indices: count, updates: count * inner, output: length * inner },
  ...(copyShare === undefined ? {} : { copyShare }),
}));

const draft: Draw = (dice, limits, dtype) => {
  const inner = dice.size(limits.elements);
  const length = dice.size(limits.elements / inner);
  const outer = dice.size(limits.elements / inner / length);
  const count = dice.size(limits.elements / inner / outer);
  const indexShape = [dice.pick([1, outer]), count, dice.pick([1, inner])];
  // The range of a product of many is beyond every type.
  const kind = dice.pick(scatterKinds.filter((kind) => kind !== "mul"));
  return {
    rest: { kind, shape: [outer, length, inner], axis: dice.pick([1, -2]), indexShape, dtype },
    inputs: { updates: outer * count * inner, indices: indexShape.reduce((a, b) => a * b) },
    integers: { indices: { low: dice.pick([0, -2]), high: length } },
    outputs: { output: outer * length * inner },
    keepsOutputs: true,
    range: ({ updates, output }) =>
      within(magnitude(output!) + magnitude(updates!) * (kind === "add" ? count : 1)),
  };
};

export const scatter: TestedOperation<ScatterProblem<ReferenceMemory>> = {
  operation: operations.scatter,
  supports: [{ dtype: scatterTypes, kind: scatterKinds }],
  ...{ evaluate, small, medium, poisoned, timed, draft },
  /** Elements that one index takes; updates. */
  shapeAxes: ["row", "updates"],
  laws: scatterLaws,
  mutants: scatterMutants,
};
