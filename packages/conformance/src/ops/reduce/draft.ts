import { isTruthReduction } from "@backplane/core";
import { type Draw, drawType } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import { reduceKindsOf } from "./kinds.js";

/** Bytes of which many decide nothing. */
const decided = { any: { low: 0, high: 0 }, all: { low: 1, high: 255 } } as const;

export const draft: Draw = (dice, limits, dtype) => {
  const type = drawType(dice, dtype);
  const kind = dice.pick(reduceKindsOf[type]);
  // Products of many numbers overflow.
  const most = kind === "prod" ? 512 : limits.elements;
  const inner = dice.size(most);
  const middle = kind === "prod" ? 1 + dice.below(3) : dice.size(most / inner);
  const outer = dice.size(most / inner / middle);
  const shape = [outer, middle, inner];
  const axes = kind === "prod" ? [1] : dice.pick([[0], [1], [2], [0, 2], [0, 1, 2], [1, 2]]);
  const reduced = axes.reduce((product, axis) => product * shape[axis]!, 1);
  return {
    rest: { kind, shape, axes, dtype: type },
    ...(isTruthReduction(kind)
      ? {
          types: { input: "u8" } as const,
          integers: { input: dice.pick([{ low: 0, high: 1 }, { low: 0, high: 255 }, decided[kind]]) },
        }
      : {}),
    inputs: { input: inner * middle * outer },
    outputs: { output: (inner * middle * outer) / reduced },
    range({ input }) {
      const bound = magnitude(input!);
      if (kind === "prod") return within(Math.max(bound, 1) ** reduced);
      if (kind === "logSumExp") return within(bound + Math.log(reduced));
      return within(kind === "sum" ? bound * reduced : bound);
    },
  };
};
