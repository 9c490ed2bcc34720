import { floatTypes, operations, type QuantizeProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import type { Call, SmallCall, TestedOperation, TimedCall } from "../operation.js";
import { evaluate } from "./formula.js";
import { quantizeLaws } from "./laws.js";
import { quantizeMutants } from "./mutants.js";

const types = { b: "u8", scales: "f32", zeroPoints: "u8" } as const;

const small: SmallCall = {
  operands: { input: 18, b: 32, scales: 2, zeroPoints: 2 },
  types,
  rest: { n: 2, k: 9 },
  malformed: [
    ...[{ bits: 0 }, { bits: 2 }, { bits: 16 }, { block: 0 }, { block: 16 }, { block: 48 }, { block: 256 }],
    { n: 2 ** 52, k: 2 ** 52 },
  ],
  nothing: [{ n: 0 }, { k: 0 }, { n: 0, k: 0 }],
  tooLarge: [
    ["input", { k: 1000 }],
    ["b", { block: 128 }],
    ["b", { bits: 8 }],
    ["input", { n: 300 }],
  ],
};

const medium: Call = {
  operands: { input: 72 * 600, b: 72 * 19 * 16, scales: 72 * 19, zeroPoints: 72 * 19 },
  types,
  rest: { n: 72, k: 600 },
};

const timedOf = (
  size: TimedCall["size"],
  n: number,
  k: number,
  bits: 4 | 8,
  block: 32 | 64 | 128 = 32,
  hasZeroPoints = false,
  copyShare?: number,
): TimedCall => ({
  ...{ size, name: `${bits} bits ${n}x${k}${hasZeroPoints ? " with zero points" : ""}`, types },
  rest: { n, k, bits, block },
  operands: {
    ...{ input: n * k, b: (n * k * bits) / 8, scales: (n * k) / block },
    ...(hasZeroPoints ? { zeroPoints: (n * k) / block } : {}),
  },
  ...(copyShare === undefined ? {} : { copyShare }),
});

const timed: readonly TimedCall[] = [
  timedOf("small", 1024, 4096, 4),
  timedOf("small", 1024, 4096, 8, 128, true),
  timedOf("large", 4096, 11_008, 4, 32, false, 0.8),
  timedOf("large", 4096, 11_008, 8, 32, false, 0.8),
  timedOf("large", 4096, 11_008, 4, 128, true, 0.8),
];

const draft: Draw = (dice, limits, dtype) => {
  const n = dice.size(Math.min(limits.elements, 256));
  const k = dice.size(Math.min(limits.elements / n, 1024));
  const [bits, block] = [dice.pick([4, 4, 8]), dice.pick([32, 64, 128])];
  const places = n * Math.ceil(k / block);
  return {
    rest: { n, k, bits, block, dtype, scaleType: dtype },
    inputs: { input: n * k },
    types: { b: "u8", scales: dtype, zeroPoints: "u8" },
    outputs: {
      ...{ b: (places * block * bits) / 8, scales: places },
      ...(dice.next() < 0.5 ? { zeroPoints: places } : {}),
    },
    // Of the stored numbers, and of the scales.
    range: ({ input }) => within(Math.max(255, magnitude(input!))),
  };
};

export const quantize: TestedOperation<QuantizeProblem<ReferenceMemory>> = {
  operation: operations.quantize,
  supports: [{ dtype: floatTypes, scaleType: floatTypes }],
  ...{ evaluate, small, medium, timed, draft },
  shapeAxes: ["k", "n"],
  laws: quantizeLaws,
  mutants: quantizeMutants,
};
