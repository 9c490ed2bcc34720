import { dotPlot } from "../chart.js";
import { stableSpread } from "../statistics.js";
import { threadsText } from "./document.js";
import { peerNames } from "./peer.js";
import type { CpuReport } from "./results.js";

/** Returns an SVG of how many times as fast ours was as each peer, row by row. */
export function cpuDrawing({ rows, node }: CpuReport): string {
  return dotPlot({
    title: `The CPU backend next to other libraries (Node.js ${node.slice(1)})`,
    xLabel: "how many times as fast ours was",
    legend: peerNames.map((name, color) => ({ name, color })),
    rows: rows.map((row) => ({
      label: `${row.case}, ${threadsText(row.threads)}`,
      goal: row.goal,
      dots: row.peers.map(({ name, ratio, bestRatio, spread }) => ({
        value: ratio,
        best: bestRatio,
        color: peerNames.indexOf(name),
        unsure: spread > stableSpread,
      })),
    })),
  });
}
