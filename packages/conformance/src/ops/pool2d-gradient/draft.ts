import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import { product } from "../../kit/shapes.js";
import { draft as pooled } from "../pool2d/draft.js";

/** The gradient of a drawn call of pool2d. Most indices lie in small images, and some of those in their windows. */
export const draft: Draw = (dice, limits, dtype) => {
  const { rest, inputs, outputs } = pooled(dice, limits, dtype);
  const [inputGradient, windows] = [inputs.input!, outputs.output!];
  const isMax = rest.kind === "max";
  return {
    rest,
    inputs: { outputGradient: windows, ...(isMax ? { indices: windows } : {}) },
    ...(isMax
      ? {
          integers: { indices: { low: dice.pick([0, -2]), high: dice.size(64 * 64) } },
          types: { indices: "i32" } as const,
        }
      : {}),
    outputs: { inputGradient },
    range: ({ outputGradient }) =>
      within(magnitude(outputGradient!) * product(rest.kernel as readonly number[])),
  };
};
