import {
  floatTypes,
  type NormalizeKind,
  type NormalizeProblem,
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
import { normalizeLaws, specialValues } from "./laws.js";
import { normalizeMutants } from "./mutants.js";

const small: SmallCall = {
  operands: { input: 12, weight: 4, bias: 4, output: 12 },
  rest: { kind: "layer", rows: 3, size: 4 },
  inPlace: ["input"],
  malformed: [{ epsilon: -1e-5 }],
  nothing: [{ rows: 0 }, { size: 0 }],
  tooLarge: [
    ["input", { rows: 1000 }],
    ["weight", { rows: 1, size: 12 }],
  ],
  // Results up to 11 in f16.
  allowed: 2 ** -7,
};

const inPlace = (n: number): Call => ({
  operands: { input: 3 * n, weight: n, output: 3 * n },
  rest: { kind: "layer", rows: 3, size: n },
});

const medium: Call = {
  operands: { input: 60_000, weight: 20_000, bias: 20_000, output: 60_000 },
  rest: { kind: "layer", rows: 3, size: 20_000 },
};

const poisoned: PoisonedCall = {
  rest: { kind: "layer", rows: 3, size: 11 },
  inputs: { input: countUp(3 * 11), weight: countUp(11), bias: countUp(11) },
  at: 11 + 6,
  hit: { output: isInRow(1, 3, 11) },
};

const repeated: RepeatedCall = {
  rest: { kind: "layer", rows: 1, size: 2 ** 17 + 5 },
  inputs: { input: 2 ** 17 + 5 },
  outputs: { output: 2 ** 17 + 5 },
};

/** One read and one write; rows that a workgroup of a GPU cannot hold are read twice. */
const timed: readonly TimedCall[] = normalizeKinds.flatMap((kind) =>
  (
    [
      ["small", 1024, 1024, undefined],
      ["peers", 4096, 1024, undefined],
      ["large", 16_384, 4096, 0.85],
      ["large", 2 ** 20, 64, 0.85],
      ["large", 64, 2 ** 20, 0.57],
    ] as const
  ).map(([sizeOfCall, rows, size, copyShare]): TimedCall => {
    const name = (n: number) => (n === 2 ** 20 ? "1M" : String(n));
    return {
      ...{ size: sizeOfCall, name: `${kind} norm ${name(rows)}x${name(size)}`, rest: { kind, rows, size } },
      operands: {
        ...{ input: rows * size, weight: size },
        ...(kind === "layer" ? { bias: size } : {}),
        output: rows * size,
      },
      ...(copyShare === undefined ? {} : { copyShare }),
    };
  }),
);

const draft: Draw = (dice, limits, dtype) => {
  const kind = dice.pick<NormalizeKind>(normalizeKinds);
  const size = dice.size(limits.elements);
  const rows = dice.size(limits.elements / size);
  const has = (share: number) => dice.next() < share;
  const [weight, bias] = [has(0.6), has(0.4)];
  // Statistics are f32, and a walk gives all outputs the type of the call.
  const stores = dtype === "f32" && has(0.4);
  const epsilon = dice.pick([2 ** -4, 1e-2]);
  return {
    rest: { kind, rows, size, epsilon, dtype },
    inputs: { input: rows * size, ...(weight ? { weight: size } : {}), ...(bias ? { bias: size } : {}) },
    outputs: {
      output: rows * size,
      ...(stores ? { inverseDeviation: rows, ...(kind === "layer" ? { mean: rows } : {}) } : {}),
    },
    // A factor could lie within the input.
    ...(!weight && !bias && has(0.6) ? { inPlace: "input" } : {}),
    range: (ranges) => {
      // No element is farther from the mean than sqrt(size) deviations.
      const result =
        Math.sqrt(size) * (weight ? magnitude(ranges.weight!) : 1) + (bias ? magnitude(ranges.bias!) : 0);
      return within(1.01 * Math.max(result, 1 / Math.sqrt(epsilon), magnitude(ranges.input!)));
    },
  };
};

export const normalize: TestedOperation<NormalizeProblem<ReferenceMemory>> = {
  operation: operations.normalize,
  supports: [{ dtype: floatTypes }],
  ...{ evaluate, small, medium, poisoned, repeated, inPlace, timed, draft, specialValues },
  /** Elements of a row; rows. */
  shapeAxes: ["size", "rows"],
  laws: normalizeLaws,
  mutants: normalizeMutants,
};
