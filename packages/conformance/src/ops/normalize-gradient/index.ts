import {
  floatTypes,
  type NormalizeGradientProblem,
  type NormalizeKind,
  normalizeKinds,
  operations,
} from "@backplane/core";
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
import { normalizeGradientLaws } from "./laws.js";
import { normalizeGradientMutants } from "./mutants.js";

/** Everything but statistics, in the order of the table but for the first output. */
const operandsOf = (rows: number, size: number) => ({
  ...{ input: rows * size, weight: size, outputGradient: rows * size },
  ...{ inputGradient: rows * size, weightGradient: size, biasGradient: size },
});

const small: SmallCall = {
  operands: operandsOf(3, 4),
  rest: { kind: "layer", rows: 3, size: 4 },
  inPlace: ["input", "outputGradient"],
  malformed: [{ epsilon: -1e-5 }],
  nothing: [{ size: 0 }, { rows: 0, accumulate: true }],
  tooLarge: [
    ["input", { rows: 1000 }],
    ["weight", { rows: 1, size: 12 }],
  ],
  // Sums up to 30 in f16.
  allowed: 2 ** -6,
};

const inPlace = (n: number): Call => ({
  operands: { input: 3 * n, weight: n, outputGradient: 3 * n, inputGradient: 3 * n },
  rest: { kind: "layer", rows: 3, size: n },
});

const medium: Call = {
  operands: operandsOf(3, 20_000),
  rest: { kind: "layer", rows: 3, size: 20_000 },
};

const poisoned: PoisonedCall = {
  rest: { kind: "layer", rows: 3, size: 11 },
  inputs: { input: countUp(3 * 11), weight: countUp(11), outputGradient: countUp(3 * 11, 3) },
  at: 11 + 6,
  hit: {
    inputGradient: isInRow(1, 3, 11),
    weightGradient: new Array<boolean>(11).fill(true),
    biasGradient: new Array<boolean>(11).fill(false),
  },
};

const repeated: RepeatedCall = {
  rest: { kind: "layer", rows: 3001, size: 65 },
  inputs: { input: 3001 * 65, outputGradient: 3001 * 65 },
  outputs: { inputGradient: 3001 * 65, weightGradient: 65, biasGradient: 65 },
};

/** Two reads and one write; rows that a workgroup of a GPU cannot hold are read twice. */
const timed: readonly TimedCall[] = normalizeKinds.flatMap((kind) =>
  (
    [
      ["small", 1024, 1024, undefined],
      ["large", 16_384, 4096, 0.8],
      ["large", 2 ** 20, 64, 0.8],
      ["large", 64, 2 ** 20, 0.55],
    ] as const
  ).map(([sizeOfCall, rows, size, copyShare]): TimedCall => {
    const name = (n: number) => (n === 2 ** 20 ? "1M" : String(n));
    return {
      size: sizeOfCall,
      name: `gradients of ${kind} norm ${name(rows)}x${name(size)}`,
      rest: { kind, rows, size },
      operands: {
        ...{ input: rows * size, weight: size, outputGradient: rows * size },
        ...(kind === "layer" ? { mean: rows } : {}),
        ...{ inverseDeviation: rows, inputGradient: rows * size, weightGradient: size },
        ...(kind === "layer" ? { biasGradient: size } : {}),
      },
      types: { mean: "f32", inverseDeviation: "f32" },
      ...(copyShare === undefined ? {} : { copyShare }),
    };
  }),
);

const draft: Draw = (dice, limits, dtype) => {
  const kind = dice.pick<NormalizeKind>(normalizeKinds);
  const size = dice.size(limits.elements);
  const rows = dice.size(limits.elements / size);
  const has = (share: number) => dice.next() < share;
  const weight = has(0.6);
  const withInput = has(0.8);
  const withWeight = !withInput || has(0.6);
  const withBias = has(0.5);
  const epsilon = dice.pick([2 ** -4, 1e-2]);
  return {
    rest: { kind, rows, size, epsilon, dtype },
    inputs: { input: rows * size, outputGradient: rows * size, ...(weight ? { weight: size } : {}) },
    outputs: {
      ...(withInput ? { inputGradient: rows * size } : {}),
      ...(withWeight ? { weightGradient: size } : {}),
      ...(withBias ? { biasGradient: size } : {}),
    },
    // Not in place: the inputs may overlap each other.
    range: (ranges) => {
      const dy = magnitude(ranges.outputGradient!);
      const g = dy * (weight ? magnitude(ranges.weight!) : 1);
      // No element is farther from the mean than sqrt(size) deviations; means of |h| and h^2 are at most 1.
      const h = Math.sqrt(size);
      return within(1.01 * Math.max((2 * g + h * g) / Math.sqrt(epsilon), rows * dy * h));
    },
  };
};

export const normalizeGradient: TestedOperation<NormalizeGradientProblem<ReferenceMemory>> = {
  operation: operations.normalizeGradient,
  supports: [{ dtype: floatTypes }],
  ...{ evaluate, small, medium, poisoned, repeated, inPlace, timed, draft },
  /** Elements of a row; rows. */
  shapeAxes: ["size", "rows"],
  laws: normalizeGradientLaws,
  mutants: normalizeGradientMutants,
};
