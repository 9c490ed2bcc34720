import { floatTypes, integerTypes, operations, type SortProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import type { Call, SmallCall, TestedOperation, TimedCall } from "../operation.js";
import { evaluate } from "./formula.js";
import { sortLaws, specialValues } from "./laws.js";
import { sortMutants } from "./mutants.js";

const types = { indices: "i32" } as const;

const small: SmallCall = {
  types,
  operands: { input: 12, values: 12, indices: 12 },
  rest: { shape: [3, 4] },
  malformed: [{ axis: 2 }, { axis: -3 }, { shape: [] }, { count: 5 }],
  nothing: [{ shape: [0, 4] }, { shape: [3, 0] }, { count: 0 }],
  tooLarge: [["input", { shape: [3, 1000] }]],
};

const medium: Call = {
  types,
  operands: { input: 60_000, values: 60_000, indices: 60_000 },
  rest: { shape: [3, 20_000] },
};

const timedOf = (
  size: TimedCall["size"],
  rows: number,
  length: number,
  count: number,
  order: { readonly descending?: boolean } = {},
): TimedCall => ({
  ...{ size, types },
  name: [
    ...(order.descending ? ["descending"] : []),
    ...(count < length ? [`first ${count} of`] : []),
    `${rows}x${length}`,
  ].join(" "),
  rest: { shape: [rows, length], count, ...order },
  operands: { input: rows * length, values: rows * count, indices: rows * count },
});

const timed: readonly TimedCall[] = [
  timedOf("small", 1024, 1024, 1024),
  timedOf("small", 1, 2 ** 20, 2 ** 20),
  // Descending, as other libraries have no other order of values and places.
  timedOf("peers", 1024, 1024, 1024, { descending: true }),
  timedOf("peers", 1, 2 ** 20, 2 ** 20, { descending: true }),
  timedOf("peers", 64, 32_768, 40, { descending: true }),
  timedOf("large", 1, 2 ** 24, 2 ** 24),
  timedOf("large", 4096, 4096, 4096),
  timedOf("large", 64, 131_072, 40),
];

const draft: Draw = (dice, limits, dtype) => {
  const inner = dice.size(limits.elements);
  const length = dice.size(limits.elements / inner);
  const outer = dice.size(limits.elements / inner / length);
  const count = dice.size(length);
  const results = outer * count * inner;
  return {
    rest: { shape: [outer, length, inner], axis: 1, descending: dice.next() < 0.5, count, dtype },
    types,
    inputs: { input: outer * length * inner },
    outputs: { values: results, indices: results },
    // Of the values, and of the places.
    range: ({ input }) => within(Math.max(length, magnitude(input!))),
  };
};

export const sort: TestedOperation<SortProblem<ReferenceMemory>> = {
  operation: operations.sort,
  supports: [{ dtype: [...floatTypes, ...integerTypes] }],
  ...{ evaluate, small, medium, timed, draft, specialValues },
  /** Elements along the axis; rows. */
  shapeAxes: ["length", "rows"],
  laws: sortLaws,
  mutants: sortMutants,
};
