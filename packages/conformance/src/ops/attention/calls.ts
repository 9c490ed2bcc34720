import { countUp, isInRow } from "../../kit/values.js";
import type { Call, PoisonedCall, RepeatedCall, SmallCall } from "../operation.js";

export const small: SmallCall = {
  operands: { q: 24, k: 16, v: 16, out: 24 },
  rest: { batch: 1, heads: 2, kvHeads: 1, queryLength: 3, keyLength: 4, headSize: 4, causal: true },
  malformed: [
    ...[{ kvHeads: 3 }, { kvHeads: 0 }, { qStrides: [24, 12] }, { kStrides: [16, 16, -4] }],
    ...[{ vStrides: [16, 16, 0.5] }, { outStrides: [24, 4, 4] }, { outStrides: [24, 12, 0] }],
  ],
  nothing: [{ batch: 0 }, { heads: 0 }, { queryLength: 0 }, { headSize: 0 }],
  tooLarge: [
    ["q", { queryLength: 1000 }],
    ["k", { keyLength: 1000 }],
    ["q", { qStrides: [0, 1000, 4] }],
    ["v", { vStrides: [0, 0, 1000] }],
  ],
  // Its own laws hold it to its tolerance.
  allowed: 0.05,
};

export const medium: Call = {
  operands: { q: 4 * 20 * 16, k: 2 * 300 * 16, v: 2 * 300 * 16, out: 4 * 20 * 16 },
  rest: { batch: 1, heads: 4, kvHeads: 2, queryLength: 20, keyLength: 300, headSize: 16 },
};

export const poisoned: PoisonedCall = {
  rest: { batch: 1, heads: 1, queryLength: 5, keyLength: 6, headSize: 4 },
  inputs: { q: countUp(5 * 4), k: countUp(6 * 4, 2), v: countUp(6 * 4, 3) },
  at: 2 * 4,
  hit: { out: isInRow(2, 5, 4) },
};

export const repeated: RepeatedCall = {
  rest: { batch: 1, heads: 1, queryLength: 1, keyLength: 515, headSize: 64 },
  inputs: { q: 64, k: 64 * 515, v: 64 * 515 },
  outputs: { out: 64 },
};
