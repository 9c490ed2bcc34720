import type { Comparison, Ratio, Row } from "./result.js";

/** Whose rate is that of their operations; that of all others is the rate of memory. */
const computes: readonly string[] = [
  "gemm",
  "batchedGemm",
  "conv2d",
  "conv2dInputGradient",
  "conv2dFilterGradient",
  "attention",
  "attentionGradient",
  "quantizedGemm",
  "random",
  "sort",
];

/** The values that determine a rate. */
type Rated = Pick<Row, "operation" | "flops" | "bytes" | "median" | "comparison">;

/** Returns the most informative rate of a case, with its unit: bytes if memory limits it. */
export function rate({ operation, flops, bytes, median, comparison }: Rated): string {
  if (operation === "small operation") return `${(1 / median / 1000).toFixed(1)} k/s`;
  if (!computes.includes(operation) || comparison?.against === "copy")
    return `${(bytes / median / 1e9).toFixed(1)} GB/s`;
  const teraflops = flops / median / 1e12;
  return teraflops >= 1 ? `${teraflops.toFixed(1)} TFLOP/s` : `${(teraflops * 1000).toFixed(1)} GFLOP/s`;
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(0)}%`;
}

/** Returns microseconds, with as many digits as are significant. */
export function timeText(seconds: number): string {
  const value = seconds * 1e6;
  return value.toFixed(value < 100 ? 1 : 0);
}

/** How ours compares with the other, by the medians and by the best of both. */
export function ratioText({ against, ratio, bestRatio }: Ratio): string {
  return `${twoDigits(ratio)} of ${against} (best ${twoDigits(bestRatio)})`;
}

/** Rounded down, so that no missed goal looks reached. */
export function twoDigits(value: number): string {
  return (Math.floor(value * 100) / 100).toFixed(2);
}

/** One row for people. */
export function line(row: Row): string {
  const { comparison, anchor, ofFloor, median, unstable, configuration } = row;
  const parts = [
    `  ${configuration.padEnd(18)}`,
    `${timeText(median).padStart(9)} us`,
    rate(row).padStart(15),
    ofFloor === undefined ? "" : `${percent(ofFloor)} of the floor`,
    comparison === undefined ? "" : `${ratioText(comparison)}${verdict(comparison)}`,
    anchor === undefined ? "" : ratioText(anchor),
    unstable ? "UNSTABLE" : "",
  ];
  return parts.filter((part) => part !== "").join("  ");
}

function verdict({ ratio, atLeast }: Comparison): string {
  if (atLeast === 0) return "";
  return ratio >= atLeast ? `, goal ${atLeast} reached` : `, goal ${atLeast} MISSED`;
}
