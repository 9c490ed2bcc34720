import {
  type ArithmeticKind,
  binaryKinds,
  binaryResultType,
  elementTypes,
  type FloatType,
  type IntegerType,
  isComparison,
} from "@backplane/core";
import { type Dice, type Draw, drawType } from "../../kit/draft.js";
import { binaryRange } from "./range.js";

export const draft: Draw = (dice, limits, dtype) => {
  const rows = dice.size(64);
  const columns = dice.size(limits.elements / rows);
  const form = dice.pick(["same", "row", "column", "scalar"] as const);
  const type = drawType(dice, dtype);
  const kind = dice.pick(binaryKinds.filter((one) => binaryResultType(one, type) !== undefined));
  const scalar = drawScalar(dice, type);
  const count = rows * columns;
  const b = { same: count, row: columns, column: rows, scalar: 0 }[form];
  const shapes =
    form === "scalar" || form === "same"
      ? { n: count }
      : { shapeA: [rows, columns], shapeB: form === "row" ? [columns] : [rows, 1] };
  return {
    rest: { kind, ...shapes, dtype: type, ...(form === "scalar" ? { b: { scalar } } : {}) },
    inputs: { a: count, ...(form === "scalar" ? {} : { b }) },
    outputs: { output: count },
    ...(isComparison(kind) ? { types: { output: "u8" } as const } : {}),
    range: ({ a, b = { low: scalar, high: scalar } }) =>
      isComparison(kind) ? { low: 0, high: 1 } : binaryRange(kind as ArithmeticKind, a!, b),
  };
};

function drawScalar(dice: Dice, type: FloatType | IntegerType | "u8"): number {
  const { range } = elementTypes[type];
  return range === undefined ? dice.below(64) / 16 + 0.25 : dice.pick([...range, 0, 1, 7, 33]);
}
