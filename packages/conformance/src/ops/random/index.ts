import { operations, type RandomProblem, randomKinds, randomTypes } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { within } from "../../kit/range.js";
import type { Call, SmallCall, TestedOperation, TimedCall } from "../operation.js";
import { evaluate } from "./formula.js";
import { randomLaws } from "./laws.js";
import { randomMutants } from "./mutants.js";

const small: SmallCall = {
  operands: { output: 11 },
  rest: { kind: "uniform", count: 11, seed: 7, offset: 2 },
  malformed: [
    { seed: "7" },
    { offset: 1n << 130n },
    { mean: 1 },
    { deviation: 1 },
    { probability: 0.5 },
    { kind: "normal", deviation: -1 },
  ],
  nothing: [{ count: 0 }],
  tooLarge: [["output", { count: 1000 }]],
};

const medium: Call = {
  operands: { output: 60_000 },
  rest: { kind: "uniform", count: 60_000, seed: 7, offset: 3 },
};

/** Only the output crosses memory. What is above the share of normal is time of arithmetic. */
const timed: readonly TimedCall[] = [
  ...(["uniform", "normal"] as const).map((kind) => timedOf("small", `${kind} 1M`, kind, 2 ** 20)),
  timedOf("large", "uniform 64M", "uniform", 2 ** 26, 0.85),
  timedOf("large", "normal 64M", "normal", 2 ** 26, 0.64),
];

function timedOf(
  size: TimedCall["size"],
  name: string,
  kind: "uniform" | "normal",
  count: number,
  copyShare?: number,
): TimedCall {
  return {
    ...{ size, name: `random ${name}`, rest: { kind, count, seed: 1 }, operands: { output: count } },
    ...(copyShare === undefined ? {} : { copyShare }),
  };
}

const draft: Draw = (dice, limits, dtype) => {
  const kind = dice.pick(["uniform", "normal"] as const);
  const count = dice.size(limits.elements);
  const place = { seed: dice.below(2 ** 53), offset: dice.below(2 ** 53) };
  const shape = kind === "normal" ? { mean: dice.below(5) - 2, deviation: dice.below(9) / 8 } : {};
  return {
    ...{ rest: { kind, count, ...place, ...shape, dtype }, inputs: {}, outputs: { output: count } },
    range: () =>
      kind === "uniform" ? { low: 0, high: 1 } : within(Math.abs(shape.mean!) + 6.8 * shape.deviation!),
  };
};

export const random: TestedOperation<RandomProblem<ReferenceMemory>> = {
  operation: operations.random,
  supports: randomKinds.map((kind) => ({ kind: [kind], dtype: randomTypes[kind] })),
  ...{ evaluate, small, medium, timed, draft },
  /** Elements; words of the first block that are left out. */
  shapeAxes: ["count", "skip"],
  laws: randomLaws,
  mutants: randomMutants,
};
