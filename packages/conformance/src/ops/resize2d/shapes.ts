import type { resizing } from "./cases.js";

/* The shapes on which laws look at resize2d, and at its gradient. */

type Plain = Omit<Parameters<typeof resizing>[0], "kind">;

/** Twice as large and half; rows longer than what one invocation, workgroup or chunk does; ratios of large numbers; many planes. */
export const largeShapes: readonly Plain[] = [
  { channels: 3, from: [28, 36], to: [56, 72] },
  { channels: 2, from: [56, 112], to: [28, 56], coordinates: "asymmetric" },
  { from: [2, 20_011], to: [3, 19_993] },
  { layout: "NHWC", channels: 70, from: [9, 10], to: [19, 23] },
  { layout: "NHWC", channels: 3, from: [40, 41], to: [90, 75], coordinates: "align-corners" },
  { from: [1, 5000], to: [1, 5001], coordinates: "align-corners" },
  { from: [7, 1031], to: [14, 2062] },
  { channels: 33, from: [1, 1], to: [7, 8] },
  { channels: 70_000, from: [1, 2], to: [2, 1] },
  { layout: "NHWC", channels: 1030, from: [2, 3], to: [3, 2] },
  { from: [300, 5], to: [1000, 11] },
  { from: [1000, 300], to: [3, 2], coordinates: "asymmetric" },
];

/** Factors of bilinear are then fractions with few bits. */
export const wholeRatios: readonly Plain[] = [2, 4, 0.5, 0.25].flatMap((ratio) =>
  [
    { from: [8, 12] as const, channels: 2 },
    { from: [4, 64] as const },
    { from: [16, 20] as const, channels: 5, layout: "NHWC" as const },
    { from: [8, 16] as const, channels: 8, layout: "NHWC" as const },
  ].flatMap((plain) =>
    (["half-pixel", "asymmetric"] as const).map(
      (coordinates): Plain => ({
        ...{ ...plain, coordinates },
        to: [plain.from[0] * ratio, plain.from[1] * ratio],
      }),
    ),
  ),
);

/** The first axis is reduced, and the second enlarged, to a corner of whole steps. */
export const corners: readonly Plain[] = [
  { from: [9, 5], to: [5, 9], coordinates: "align-corners" },
  { from: [17, 3], to: [3, 9], channels: 3, layout: "NHWC", coordinates: "align-corners" },
  { from: [5, 17], to: [1, 33], coordinates: "align-corners" },
];
