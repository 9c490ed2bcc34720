import { type AttentionGradientProblem, floatTypes, maskTypes, operations } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { countUp, isIn, isInRow } from "../../kit/values.js";
import type { Call, PoisonedCall, RepeatedCall, SmallCall, TestedOperation } from "../operation.js";
import { draft } from "./draft.js";
import { evaluate } from "./formula.js";
import { attentionGradientLaws } from "./laws.js";
import { attentionGradientMutants } from "./mutants.js";

/** Elements of each operand of a call. */
function elements(queries: number, keys: number, headSize: number): Record<string, number> {
  const [ofQueries, ofKeys] = [queries * headSize, keys * headSize];
  return {
    ...{ q: ofQueries, k: ofKeys, v: ofKeys, out: ofQueries, logSumExp: queries, outGradient: ofQueries },
    ...{ qGradient: ofQueries, kGradient: ofKeys, vGradient: ofKeys },
  };
}

const types = { logSumExp: "f32" } as const;

const small: SmallCall = {
  operands: elements(6, 4, 4),
  types,
  rest: {
    batch: 1,
    heads: 2,
    kvHeads: 1,
    queryLength: 3,
    keyLength: 4,
    headSize: 4,
    causal: true,
    scale: 2 ** -6,
  },
  malformed: [
    ...[{ kvHeads: 3 }, { kvHeads: 0 }, { qStrides: [24, 12] }, { kStrides: [16, 16, -4] }],
    ...[
      { outGradientStrides: [16, 16, 0.5] },
      { qGradientStrides: [24, 4, 4] },
      { kGradientStrides: [16, 16, 0] },
    ],
  ],
  nothing: [{ batch: 0 }, { heads: 0, kvHeads: 0 }, { headSize: 0 }, { queryLength: 0, keyLength: 0 }],
  tooLarge: [
    ["q", { queryLength: 1000 }],
    ["k", { keyLength: 1000 }],
    ["outGradient", { outGradientStrides: [0, 1000, 4] }],
    ["vGradient", { vGradientStrides: [0, 0, 1000] }],
  ],
  // Results of hundreds in f16.
  allowed: 2,
};

const medium: Call = {
  operands: elements(4 * 20, 2 * 300, 16),
  types,
  rest: { batch: 1, heads: 4, kvHeads: 2, queryLength: 20, keyLength: 300, headSize: 16, scale: 2 ** -6 },
};

const everywhere = (count: number) => isIn(count, ...Array.from({ length: count }, (_, i) => i));

const poisoned: PoisonedCall = {
  rest: { batch: 1, heads: 1, queryLength: 5, keyLength: 6, headSize: 4 },
  inputs: {
    ...{ q: countUp(5 * 4), k: countUp(6 * 4, 2), v: countUp(6 * 4, 3), out: countUp(5 * 4, 4) },
    ...{ logSumExp: countUp(5), outGradient: countUp(5 * 4, 5) },
  },
  types,
  at: 2 * 4,
  hit: { qGradient: isInRow(2, 5, 4), kGradient: everywhere(24), vGradient: everywhere(24) },
};

const repeated: RepeatedCall = {
  rest: { batch: 1, heads: 2, kvHeads: 1, queryLength: 150, keyLength: 140, headSize: 8 },
  inputs: {
    ...{ q: 2400, k: 1120, v: 1120, out: 2400, logSumExp: 300, outGradient: 2400 },
  },
  outputs: { qGradient: 2400, kGradient: 1120, vGradient: 1120 },
  types,
};

export const attentionGradient: TestedOperation<AttentionGradientProblem<ReferenceMemory>> = {
  operation: operations.attentionGradient,
  supports: [{ dtype: floatTypes, mask: true, maskDtype: maskTypes, window: true }],
  ...{ evaluate, small, medium, poisoned, repeated, draft },
  shapeAxes: ["queryLength", "keyLength", "headSize"],
  laws: attentionGradientLaws,
  mutants: attentionGradientMutants,
};
