import { countUp, isIn, isInRow } from "../../kit/values.js";
import type { Call, PoisonedCall, RepeatedCall, SmallCall } from "../operation.js";

const malformed = [{ lda: 4 }, { ldb: 3 }, { ldc: 3 }, { lda: 2, transA: true }, { ldb: 4, transB: true }];

export const small: SmallCall = {
  operands: { a: 15, b: 20, c: 12 },
  rest: { m: 3, n: 4, k: 5 },
  malformed,
  nothing: [{ m: 0 }, { n: 0 }],
  tooLarge: [
    ["a", { lda: 1000 }],
    ["b", { ldb: 1000 }],
    ["c", { ldc: 1000 }],
  ],
};

export const medium: Call = {
  operands: { a: 9 * 600, b: 600 * 72, c: 9 * 72 },
  rest: { m: 9, n: 72, k: 600, beta: 2 },
};

export const poisoned: PoisonedCall = {
  rest: { m: 9, n: 5, k: 7 },
  inputs: { a: countUp(9 * 7), b: countUp(7 * 5) },
  at: 3 * 7 + 2,
  hit: { c: isInRow(3, 9, 5) },
};

export const repeated: RepeatedCall = {
  rest: { m: 33, n: 31, k: 2049 },
  inputs: { a: 33 * 2049, b: 2049 * 31 },
  outputs: { c: 33 * 31 },
};

export const batchedSmall: SmallCall = {
  operands: { a: 30, b: 40, c: 24 },
  rest: { batch: 2, m: 3, n: 4, k: 5 },
  malformed: [...malformed, { strideC: 0 }, { strideC: 11 }, { strideC: 4 }],
  nothing: [{ batch: 0 }, { m: 0 }, { n: 0 }],
  tooLarge: [
    ["a", { strideA: 1000 }],
    ["b", { strideB: 1000 }],
    ["c", { strideC: 1000 }],
  ],
};

export const batchedMedium: Call = {
  operands: { a: 3 * 10 * 600, b: 3 * 600 * 24, c: 3 * 10 * 24 },
  rest: { batch: 3, m: 10, n: 24, k: 600, beta: 2 },
};

export const batchedPoisoned: PoisonedCall = {
  rest: { batch: 3, m: 2, n: 2, k: 2 },
  inputs: { a: countUp(3 * 4), b: countUp(3 * 4) },
  at: 5,
  hit: { c: isIn(12, 4, 5) },
};
