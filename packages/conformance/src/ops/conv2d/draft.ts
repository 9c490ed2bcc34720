import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";

export const draft: Draw = (dice, limits, dtype) => {
  const groups = dice.pick([1, 1, 2]);
  const batch = 1 + dice.below(3);
  const inChannels = groups * dice.size(16);
  const outChannels = groups * dice.size(16);
  const kernel = [1 + dice.below(4), 1 + dice.below(4)] as const;
  const terms = (inChannels * kernel[0] * kernel[1]) / groups;
  const pixels = Math.max(16, limits.multiplications / (terms * outChannels * batch));
  const height = kernel[0] + dice.size(Math.min(Math.sqrt(pixels), 64));
  const width = kernel[1] + dice.size(Math.min(pixels / height + 1, 64));
  const stride = [1 + dice.below(2), 1 + dice.below(2)] as const;
  const padding = [dice.below(2), dice.below(2), dice.below(2), dice.below(2)] as const;
  const [top, left, bottom, right] = padding;
  const outHeight = Math.floor((height + top + bottom - kernel[0]) / stride[0]) + 1;
  const outWidth = Math.floor((width + left + right - kernel[1]) / stride[1]) + 1;
  const layout = dice.pick(["NCHW", "NHWC"] as const);
  const inputShape =
    layout === "NCHW" ? [batch, inChannels, height, width] : [batch, height, width, inChannels];
  const filterShape = [outChannels, inChannels / groups, ...kernel];
  const bias = dice.next() < 0.5 ? { bias: outChannels } : {};
  return {
    rest: { layout, inputShape, filterShape, stride, padding, groups, dtype },
    inputs: { input: batch * inChannels * height * width, filter: terms * outChannels, ...bias },
    outputs: { output: batch * outChannels * outHeight * outWidth },
    range: ({ input, filter, bias = within(0) }) =>
      within(terms * magnitude(input!) * magnitude(filter!) + magnitude(bias)),
  };
};
