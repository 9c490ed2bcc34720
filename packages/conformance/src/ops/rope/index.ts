import { floatTypes, operations, type RopeProblem, ropeKinds } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import { countUp, isIn } from "../../kit/values.js";
import type { Call, PoisonedCall, SmallCall, TestedOperation, TimedCall } from "../operation.js";
import { evaluate } from "./formula.js";
import { ropeLaws } from "./laws.js";
import { ropeMutants } from "./mutants.js";

const types = { cos: "f32", sin: "f32", positions: "i32" } as const;

const small: SmallCall = {
  operands: { input: 24, cos: 8, sin: 8, positions: 3, output: 24 },
  types,
  rest: { kind: "halves", heads: 2, rows: 3, size: 4, length: 4 },
  inPlace: ["input"],
  malformed: [
    ...[{ rotated: 3 }, { rotated: 6 }, { rotated: 0 }, { size: 5 }, { length: 0 }, { start: 1 }],
    ...[{ inputStrides: [24, 12] }, { inputStrides: [24, -12, 4] }],
    ...[{ outputStrides: [24, 12, 3] }, { outputStrides: [24, 4, 4] }],
  ],
  nothing: [{ rows: 0 }, { heads: 0 }, { batch: 0 }, { size: 0, length: 1 }],
  tooLarge: [
    ["input", { rows: 3000 }],
    ["input", { inputStrides: [0, 4000, 4] }],
    ["output", { outputStrides: [0, 4000, 4] }],
    ["cos", { length: 4000 }],
    ["positions", { batch: 2, inputStrides: [0, 12, 4], positionStride: 1000, outputStrides: [24, 12, 4] }],
  ],
};

const inPlace = (n: number): Call => ({
  operands: { input: 4 * n, cos: 2 * n, sin: 2 * n, output: 4 * n },
  types: { cos: "f32", sin: "f32" },
  rest: { kind: "halves", rows: n, size: 4, length: n },
});

const medium: Call = {
  operands: { input: 60_000, cos: 10_000, sin: 10_000, output: 60_000 },
  types: { cos: "f32", sin: "f32" },
  rest: { kind: "neighbours", batch: 3, rows: 1000, size: 20, length: 1000 },
};

const poisoned: PoisonedCall = {
  rest: { kind: "halves", rows: 3, size: 6, rotated: 4, length: 3 },
  inputs: { input: countUp(18), cos: countUp(6), sin: countUp(6) },
  types: { cos: "f32", sin: "f32" },
  at: 7,
  hit: { output: isIn(18, 7, 9) },
};

const timedOf = (
  size: TimedCall["size"],
  [batch, heads, rows, width]: readonly [number, number, number, number],
  rest: Readonly<Record<string, unknown>>,
  copyShare?: number,
): TimedCall => {
  const count = batch * heads * rows * width;
  const table = (rows * width) / 2;
  return {
    ...{ size, name: `${rest.kind} ${batch}x${heads}x${rows}x${width}` },
    rest: { batch, heads, rows, size: width, length: rows, ...rest },
    types: { cos: "f32", sin: "f32" },
    operands: { input: count, cos: table, sin: table, output: count },
    ...(copyShare === undefined ? {} : { copyShare }),
  };
};

const timed: readonly TimedCall[] = ropeKinds.flatMap((kind) => [
  timedOf("small", [1, 8, 1024, 64], { kind }),
  timedOf("peers", [1, 32, 1024, 128], { kind }),
  timedOf("large", [4, 32, 4096, 128], { kind }, 0.9),
]);

const draft: Draw = (dice, limits, dtype) => {
  const half = dice.size(Math.min(limits.elements / 2, 200));
  const rest = dice.pick([0, 0, dice.size(5)]);
  const size = 2 * half + rest;
  const heads = dice.size(Math.max(limits.elements / size, 1));
  const rows = dice.size(Math.max(limits.elements / size / heads, 1));
  const batch = dice.size(Math.max(limits.elements / size / heads / rows, 1));
  const length = dice.size(Math.max(limits.elements / half, 1));
  const count = batch * heads * rows * size;
  return {
    rest: {
      ...{ kind: dice.pick(ropeKinds), batch, heads, rows, size, rotated: 2 * half, length },
      ...{ inverse: dice.pick([false, true]), dtype },
    },
    inputs: { input: count, cos: length * half, sin: length * half, positions: rows },
    inputTypes: { cos: "f32", sin: "f32" },
    integers: { positions: { low: dice.pick([0, -1]), high: length } },
    outputs: { output: count },
    range: ({ input, cos, sin }) =>
      within(1.01 * magnitude(input!) * Math.max(1, magnitude(cos!) + magnitude(sin!))),
  };
};

export const rope: TestedOperation<RopeProblem<ReferenceMemory>> = {
  operation: operations.rope,
  supports: [{ dtype: floatTypes }],
  ...{ evaluate, small, medium, poisoned, inPlace, timed, draft },
  /** Elements of a row; rows. */
  shapeAxes: ["size", "rows"],
  laws: ropeLaws,
  mutants: ropeMutants,
};
