import { type Pool2dKind, pool2dKinds } from "@backplane/core";
import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";
import { product } from "../../kit/shapes.js";

export const draft: Draw = (dice, limits, dtype) => {
  const kind = dice.pick<Pool2dKind>(pool2dKinds);
  const layout = dice.pick(["NCHW", "NHWC"] as const);
  const kernel = [1 + dice.below(4), 1 + dice.below(4)] as const;
  const stride = [1 + dice.below(3), 1 + dice.below(3)] as const;
  const batch = 1 + dice.below(3);
  const channels = dice.size(32);
  const room = Math.max(16, Math.min(limits.elements, limits.multiplications / product(kernel)));
  const height = kernel[0] + dice.size(Math.min(Math.sqrt(room / batch / channels), 64));
  const width = kernel[1] + dice.size(Math.min(room / batch / channels / height + 1, 64));
  const top = kernel[0] > 1 ? dice.below(2) : 0;
  const left = kernel[1] > 1 ? dice.below(2) : 0;
  const outHeight = Math.floor((height + top - kernel[0]) / stride[0]) + 1;
  const outWidth = Math.floor((width + left - kernel[1]) / stride[1]) + 1;
  const shape = layout === "NCHW" ? [batch, channels, height, width] : [batch, height, width, channels];
  const outputs = batch * channels * outHeight * outWidth;
  const hasIndices = kind === "max" && dice.next() < 0.3;
  return {
    rest: { kind, layout, inputShape: shape, kernel, stride, padding: [top, left, 0, 0], dtype },
    inputs: { input: product(shape) },
    outputs: { output: outputs, ...(hasIndices ? { indices: outputs } : {}) },
    ...(hasIndices ? { types: { indices: "i32" } as const } : {}),
    range: ({ input }) => within(magnitude(input!)),
  };
};
