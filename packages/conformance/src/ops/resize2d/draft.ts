import { type Resize2dKind, resize2dKinds } from "@backplane/core";
import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import { product } from "../../kit/shapes.js";
import { coordinateModes } from "./cases.js";

export const draft: Draw = (dice, limits, dtype) => {
  const layout = dice.pick(["NCHW", "NHWC"] as const);
  const [batch, channels] = [1 + dice.below(3), dice.size(16)];
  const side = Math.sqrt(limits.elements / batch / channels);
  const [height, width, outputHeight, outputWidth] = Array.from({ length: 4 }, () =>
    dice.size(Math.min(side, 64)),
  ) as [number, number, number, number];
  const shape = layout === "NCHW" ? [batch, channels, height, width] : [batch, height, width, channels];
  const kind = dice.pick<Resize2dKind>(resize2dKinds);
  const coordinates = dice.pick(coordinateModes);
  return {
    rest: { kind, layout, inputShape: shape, outputHeight, outputWidth, coordinates, dtype },
    inputs: { input: product(shape) },
    outputs: { output: batch * channels * outputHeight * outputWidth },
    range: ({ input }) => within(magnitude(input!)),
  };
};
