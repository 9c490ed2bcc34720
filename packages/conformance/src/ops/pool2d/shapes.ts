import type { Pool2dKind } from "@backplane/core";
import type { Arbitrary } from "fast-check";
import { isAllowed, type Pool2dCase, poolCases, type pooling } from "./cases.js";

/* The windows on which laws look at pool2d, and at its gradient. */

type Plain = Omit<Parameters<typeof pooling>[0], "kind">;

/** As in neural networks, scaled down; rows longer than what one invocation, workgroup or chunk does; many planes. */
export const largeShapes: readonly Plain[] = [
  { channels: 3, size: [56, 112], kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1] },
  { channels: 7, size: [50, 64], kernel: [2, 2] },
  { channels: 5, size: [33, 75], kernel: [3, 3], stride: [1, 1], padding: [1, 1, 1, 1] },
  { layout: "NHWC", channels: 70, size: [20, 21], kernel: [3, 3], stride: [2, 2], indices: true },
  { layout: "NHWC", channels: 3, size: [60, 41], kernel: [2, 2], ceil: true },
  { size: [3, 1031], kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1], countPadding: true },
  { size: [1, 5000], kernel: [1, 5], stride: [1, 3], indices: true },
  { channels: 33, size: [7, 7], kernel: [7, 7], batch: 3 },
  { size: [200, 130], kernel: [14, 17], stride: [1, 1], padding: [7, 8, 7, 8] },
  { channels: 70_000, size: [1, 2], kernel: [1, 2] },
  { layout: "NHWC", channels: 1030, size: [5, 4], kernel: [2, 3], stride: [1, 1] },
  { size: [260, 300], kernel: [5, 5], stride: [1, 1], dilation: [2, 3], padding: [4, 6, 4, 6] },
];

/** The windows that networks are full of, on images of whole vectors, with as many results: kernels may have ways of their own. */
export const frequent: readonly Plain[] = [2, 3].flatMap((side) =>
  [1, 2].flatMap((step) =>
    [0, 1].flatMap((left) =>
      [16, 72].map((width): Plain => {
        const right = step === 1 ? side - 1 - left : side === 3 && left === 0 ? 1 : 0;
        const padding = [left, left, side - 1 - left, right] as const;
        return {
          batch: 2,
          channels: 3,
          size: [9, width],
          kernel: [side, side],
          stride: [step, step],
          padding,
        };
      }),
    ),
  ),
);

/** Last windows beyond the padding, and one more that would begin there. */
export const endings: readonly Plain[] = [
  { size: [5, 6], kernel: [2, 2], stride: [2, 2] },
  { size: [6, 7], kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1] },
  { size: [4, 5], kernel: [2, 2], stride: [3, 3], padding: [1, 0, 1, 1] },
  { size: [2, 3], kernel: [3, 2], stride: [2, 2], padding: [0, 1, 0, 0] },
  { size: [7, 9], kernel: [4, 5], stride: [3, 4], padding: [2, 2, 2, 2], channels: 3, layout: "NHWC" },
  { size: [9, 10], kernel: [3, 2], stride: [4, 3], dilation: [2, 3], padding: [1, 1, 2, 1] },
];

/** Windows whose places lead to large numbers. */
export const far: readonly Plain[] = [
  { size: [4, 5], kernel: [3, 3], stride: [2 ** 29, 1], padding: [1, 1, 2 ** 29 - 9, 0] },
  { size: [5, 4], kernel: [2, 3], stride: [1, 1], dilation: [2 ** 29, 1], padding: [0, 1, 2 ** 29 - 1, 1] },
  { size: [6, 3], kernel: [2, 2], stride: [2 ** 50, 2 ** 20], ceil: true },
];

/** Windows of one, two, four or more elements: all have as many. */
export const wholeMeans: Arbitrary<Pool2dCase> = poolCases(["mean"])
  .filter(({ kernel }) => [1, 2, 4].includes(kernel[0]) && [1, 2, 4].includes(kernel[1]))
  .map((value): Pool2dCase => ({ ...value, ceil: false, countPadding: true }))
  .filter(isAllowed);

/** Different padding on every side, and an input that makes each of them count. */
export const lopsided = (kind: Pool2dKind): Arbitrary<Pool2dCase> =>
  poolCases([kind])
    .filter(({ size }) => size[0] > 1 && size[1] > 3)
    .map(
      (value): Pool2dCase => ({
        ...{ ...value, padding: [2, 0, 1, 3], kernel: [3, 4], dilation: [1, 1], stride: [1, 2] },
        ceil: false,
      }),
    )
    .filter(isAllowed);
