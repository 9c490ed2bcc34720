import { type FloatUnaryKind, isTest, unaryKinds, unaryResultType } from "@backplane/core";
import { type Draw, drawType } from "../../kit/draft.js";
import { unaryRange } from "./range.js";

export const draft: Draw = (dice, limits, dtype) => {
  const n = dice.size(limits.elements);
  const type = drawType(dice, dtype);
  const kind = dice.pick(unaryKinds.filter((one) => unaryResultType(one, type) !== undefined));
  const tests = isTest(kind);
  return {
    rest: { kind, n, dtype: type },
    inputs: { input: n },
    outputs: { output: n },
    ...(tests ? { types: { output: "u8" } as const } : {}),
    ...(!tests && dice.next() < 0.3 ? { inPlace: "input" } : {}),
    range: ({ input }) => (tests ? { low: 0, high: 1 } : unaryRange(kind as FloatUnaryKind, input!)),
  };
};
