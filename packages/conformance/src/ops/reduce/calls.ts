import { countUp, isIn } from "../../kit/values.js";
import type { Call, PoisonedCall, RepeatedCall, SmallCall, TimedCall } from "../operation.js";

export const small: SmallCall = {
  operands: { input: 12, output: 3 },
  rest: { kind: "sum", shape: [3, 4], axes: [1] },
  malformed: [{ axes: [2] }, { axes: [-3] }, { axes: [1, 1] }, { axes: [1, -1] }],
  nothing: [{ shape: [0, 4] }, { shape: [0, 0], axes: [1] }],
  tooLarge: [
    ["input", { shape: [3, 1000] }],
    ["output", { shape: [4, 3] }],
  ],
};

export const medium: Call = {
  operands: { input: 60_000, output: 3 },
  rest: { kind: "sum", shape: [3, 20_000], axes: [1] },
};

export const poisoned: PoisonedCall = {
  rest: { kind: "sum", shape: [3, 11], axes: [1] },
  inputs: { input: countUp(3 * 11) },
  at: 11 + 6,
  hit: { output: isIn(3, 1) },
};

export const repeated: RepeatedCall = {
  rest: { kind: "sum", shape: [2 ** 17 + 5] },
  inputs: { input: 2 ** 17 + 5 },
  outputs: { output: 1 },
};

/** Of logSumExp; the benchmark has its own for the others. */
export const timed: readonly TimedCall[] = (
  [
    ["small", 1024, 1024],
    ["large", 16_384, 4096],
  ] as const
).flatMap(([size, rows, columns]) =>
  [1, 0].map(
    (axis): TimedCall => ({
      ...{ name: `logSumExp ${rows}x${columns} over axis ${axis}`, size },
      operands: { input: rows * columns, output: axis === 1 ? rows : columns },
      rest: { kind: "logSumExp", shape: [rows, columns], axes: [axis] },
      // What is largest is known before the first exponential, so that the input is read twice.
      copyShare: 0.4,
    }),
  ),
);
