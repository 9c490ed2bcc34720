import { type FloatUnaryKind, floatUnaryKinds } from "@backplane/core";
import type { Draw } from "../../kit/draft.js";
import { unaryRange } from "./range.js";

export const draft: Draw = (dice, limits, dtype) => {
  const n = dice.size(limits.elements);
  const kind = dice.pick<FloatUnaryKind>(floatUnaryKinds);
  return {
    rest: { kind, n, dtype },
    inputs: { input: n },
    outputs: { output: n },
    ...(dice.next() < 0.3 ? { inPlace: "input" } : {}),
    range: ({ input }) => unaryRange(kind, input!),
  };
};
