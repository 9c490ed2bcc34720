import { type FloatType, floatTypes, operations, type QuantizedGemmProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import { countUp, isInRow } from "../../kit/values.js";
import type {
  Call,
  PoisonedCall,
  RepeatedCall,
  SmallCall,
  TestedOperation,
  TimedCall,
} from "../operation.js";
import { evaluate } from "./formula.js";
import { quantizedGemmLaws } from "./laws.js";
import { quantizedGemmMutants } from "./mutants.js";

const types = { b: "u8", scales: "f32" } as const;

const small: SmallCall = {
  // A has the most bytes, so that others can lie within it.
  operands: { a: 27, b: 32, scales: 2, c: 6 },
  types,
  rest: { m: 3, n: 2, k: 9 },
  malformed: [
    ...[{ bits: 0 }, { bits: 2 }, { bits: 16 }, { block: 0 }, { block: 16 }, { block: 48 }, { block: 256 }],
    { m: 2 ** 52, n: 2 ** 52 },
  ],
  nothing: [{ m: 0 }, { n: 0 }, { m: 0, n: 0, k: 0 }],
  tooLarge: [
    ["a", { m: 300 }],
    ["b", { block: 128 }],
    ["b", { bits: 8 }],
    ["b", { n: 300 }],
    ["c", { n: 300 }],
  ],
};

const medium: Call = {
  operands: { a: 9 * 600, b: 72 * 19 * 16, scales: 72 * 19, c: 9 * 72 },
  types,
  rest: { m: 9, n: 72, k: 600, beta: 2 },
};

const poisoned: PoisonedCall = {
  rest: { m: 9, n: 5, k: 7, bits: 8 },
  inputs: {
    a: countUp(9 * 7),
    b: Array.from({ length: 5 * 32 }, (_, i) => 128 + (i % 9)),
    scales: [1, 2, 3, 4, 5],
  },
  types,
  at: 3 * 7 + 2,
  hit: { c: isInRow(3, 9, 5) },
};

const repeated: RepeatedCall = {
  rest: { m: 3, n: 31, k: 2048 },
  inputs: { a: 3 * 2048, b: 31 * 64 * 16, scales: 31 * 64 },
  types,
  outputs: { c: 3 * 31 },
};

const timedOf = (
  size: TimedCall["size"],
  m: number,
  k: number,
  n: number,
  rest: { readonly bits?: number; readonly block?: number; readonly dtype?: FloatType } = {},
  copyShare?: number,
): TimedCall => {
  const { bits = 4, block = 32 } = rest;
  return {
    ...{ size, name: `${bits} bits ${m}x${k}x${n}`, rest: { m, n, k, ...rest }, types },
    operands: { a: m * k, b: (n * k * bits) / 8, scales: (n * k) / block, c: m * n },
    below: { b: 256 },
    ...(copyShare === undefined ? {} : { copyShare }),
  };
};

const timed: readonly TimedCall[] = [
  timedOf("small", 1, 1024, 4096),
  timedOf("small", 256, 1024, 1024),
  timedOf("peers", 1, 4096, 4096),
  timedOf("peers", 32, 4096, 4096),
  timedOf("large", 1, 4096, 11_008),
  timedOf("large", 8, 4096, 11_008),
  timedOf("large", 32, 4096, 11_008),
  timedOf("large", 8, 4096, 11_008, { dtype: "f16" }),
  timedOf("large", 32, 4096, 11_008, { dtype: "f16" }),
  timedOf("large", 1024, 1024, 1024),
  timedOf("large", 1, 4096, 11_008, { bits: 8, block: 128 }, 0.5),
];

const draft: Draw = (dice, limits, dtype) => {
  const m = dice.size(Math.min(limits.multiplications, 64));
  const n = dice.size(Math.min(limits.multiplications / m, 256));
  const k = dice.size(Math.min(limits.multiplications / m / n, 512));
  const [bits, block] = [dice.pick([4, 4, 8]), dice.pick([32, 64, 128])];
  const beta = dice.next() < 0.5 ? dice.pick([1, -1, 0.5]) : undefined;
  const places = n * Math.ceil(k / block);
  const middle = 2 ** (bits - 1);
  return {
    rest: { m, n, k, bits, block, dtype, scaleType: dtype, ...(beta === undefined ? {} : { beta }) },
    inputs: {
      ...{ a: m * k, b: (places * block * bits) / 8, scales: places },
      ...(dice.next() < 0.5 ? { zeroPoints: places } : {}),
    },
    types: { b: "u8", zeroPoints: "u8" },
    integers: { b: { low: 0, high: 255 }, zeroPoints: { low: middle - 1, high: middle + 1 } },
    outputs: { c: m * n },
    keepsOutputs: beta !== undefined,
    range: ({ a, scales, c }) =>
      within(
        k * magnitude(a!) * magnitude(scales!) * (middle + 1) +
          (beta === undefined ? 0 : Math.abs(beta) * magnitude(c!)),
      ),
  };
};

export const quantizedGemm: TestedOperation<QuantizedGemmProblem<ReferenceMemory>> = {
  operation: operations.quantizedGemm,
  supports: [{ dtype: floatTypes, scaleType: floatTypes, bias: true, activation: true }],
  ...{ evaluate, small, medium, poisoned, repeated, timed, draft },
  shapeAxes: ["m", "n", "k"],
  laws: quantizedGemmLaws,
  mutants: quantizedGemmMutants,
};
