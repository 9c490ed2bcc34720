import { percent, rate, timeText, twoDigits } from "../lines.js";
import { threadsText } from "./document.js";
import type { CpuRow } from "./results.js";

/** One row for people, as it is measured. */
export function rowLines(row: CpuRow): string {
  const { ours, peers, ceiling, scaling, threads } = row;
  return [
    `${row.case}, ${threadsText(threads)}`,
    `  ${"ours".padEnd(18)} ${timeText(ours.median).padStart(9)} us ${rate({ ...row, ...ours }).padStart(15)}`,
    ...peers.map(
      ({ name, median, ratio, bestRatio, how }) =>
        `  ${name.padEnd(18)} ${timeText(median).padStart(9)} us ${`${twoDigits(ratio)} times`.padStart(15)} (best ${twoDigits(bestRatio)}; ${how})`,
    ),
    ...(ceiling === undefined
      ? []
      : [`  ${percent(ceiling.ratio)} of the ceiling, ${(ceiling.flopsPerSecond / 1e9).toFixed(1)} GFLOP/s`]),
    ...(scaling === undefined ? [] : [`  ${twoDigits(scaling.ratio)} times as fast as on one thread`]),
  ].join("\n");
}
