import { type ArithmeticKind, arithmeticKinds } from "@backplane/core";
import type { Draw } from "../../kit/draft.js";
import { binaryRange } from "./range.js";

export const draft: Draw = (dice, limits, dtype) => {
  const rows = dice.size(64);
  const columns = dice.size(limits.elements / rows);
  const form = dice.pick(["same", "row", "column", "scalar"] as const);
  const kind = dice.pick<ArithmeticKind>(arithmeticKinds);
  const scalar = dice.below(64) / 16 + 0.25;
  const count = rows * columns;
  const b = { same: count, row: columns, column: rows, scalar: 0 }[form];
  const shapes =
    form === "scalar" || form === "same"
      ? { n: count }
      : { shapeA: [rows, columns], shapeB: form === "row" ? [columns] : [rows, 1] };
  return {
    rest: { kind, ...shapes, dtype, ...(form === "scalar" ? { b: { scalar } } : {}) },
    inputs: { a: count, ...(form === "scalar" ? {} : { b }) },
    outputs: { output: count },
    range: ({ a, b = { low: scalar, high: scalar } }) => binaryRange(kind, a!, b),
  };
};
