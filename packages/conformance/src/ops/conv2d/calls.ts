import { countUp, isIn } from "../../kit/values.js";
import type { Call, PoisonedCall, RepeatedCall, SmallCall } from "../operation.js";

/** Of the convolution and of its gradients. */
export const smallGeometry: Pick<SmallCall, "rest" | "malformed"> = {
  rest: { inputShape: [1, 2, 4, 5], filterShape: [3, 2, 2, 2], stride: [1, 2], padding: [0, 1, 0, 0] },
  malformed: [
    ...[{ filterShape: [3, 1, 2, 2] }, { filterShape: [3, 2, 0, 2] }, { filterShape: [3, 2, 5, 2] }],
    ...[{ layout: "NHWC" }, { layout: "CHWN" }],
    ...[{ outputShape: [1, 3, 3, 2] }, { dilation: [4, 1] }, { groups: 2 }],
    // Coordinates that kernels could not add in 32 bits, and that are not exact as numbers.
    ...[{ padding: [2 ** 30, 0, 0, 0] }, { padding: [0, 2 ** 53 - 1, 0, 2 ** 53 - 1] }],
  ],
};

export const small: SmallCall = {
  operands: { input: 40, filter: 24, bias: 3, output: 27 },
  ...smallGeometry,
  nothing: [{ inputShape: [0, 2, 4, 5] }, { filterShape: [0, 2, 2, 2] }],
  tooLarge: [
    ["input", { inputShape: [1000, 2, 4, 5] }],
    ["filter", { filterShape: [1000, 2, 2, 2] }],
    ["output", { padding: [1000, 1, 0, 0] }],
  ],
};

export const medium: Call = {
  operands: { input: 2 * 8 * 24 * 24, filter: 6 * 8 * 9, bias: 6, output: 2 * 6 * 24 * 24 },
  rest: { inputShape: [2, 8, 24, 24], filterShape: [6, 8, 3, 3], padding: [1, 1, 1, 1], stride: [1, 1] },
  // Results are whole numbers; transforms are off by up to 0.44, which is 752 gamma_38 times 8 products of 4 and 4.
  allowedByTransforms: 0.5,
};

export const poisoned: PoisonedCall = {
  rest: { inputShape: [2, 1, 3, 3], filterShape: [1, 1, 3, 1], padding: [1, 0, 1, 0] },
  inputs: { input: countUp(2 * 9), filter: countUp(3) },
  at: 9 + 4,
  hit: { output: isIn(18, 10, 13, 16) },
};

export const repeated: RepeatedCall = {
  rest: { inputShape: [1, 32, 20, 20], filterShape: [16, 32, 3, 3] },
  inputs: { input: 32 * 400, filter: 16 * 32 * 9 },
  outputs: { output: 16 * 324 },
};
