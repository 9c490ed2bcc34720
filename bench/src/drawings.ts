import { dotPlot, lineChart, type Series } from "./chart.js";
import type { Report, Row } from "./result.js";

/** SVG texts by name of file, without its ending. */
export function drawings(reports: readonly Report[]): Map<string, string> {
  const rows = latest(reports);
  const configurations = [...new Set(rows.map(({ configuration }) => configuration))];
  const files = new Map<string, string>();
  for (const name of new Set(rows.flatMap(({ curve }) => (curve === undefined ? [] : [curve.name]))))
    files.set(`curve-${name.replaceAll(" ", "-")}`, curve(name, rows, configurations));
  const compared = rows.filter(({ curve, comparison }) => curve === undefined && comparison !== undefined);
  if (compared.length > 0) files.set("against-anchors", againstAnchors(compared, configurations));
  return files;
}

/** One row for each case and configuration, the last one measured, in the order of the first. */
export function latest(reports: readonly Report[]): Row[] {
  const rows = new Map<string, Row>();
  for (const row of reports.flatMap((report) => report.rows))
    rows.set(JSON.stringify([row.case, row.configuration, row.curve]), row);
  return [...rows.values()];
}

/** Grey, the last of the palette: nobody's own. */
const anchorColor = 5;

const xLabels: Readonly<Record<string, string>> = {
  gemm: "size of the square matrices",
  attention: "queries and keys (16 heads of size 64)",
  reduce: "elements, summed to one",
};

/** Each configuration has the same colour in every drawing: its place among all of them. */
function curve(name: string, rows: readonly Row[], configurations: readonly string[]): string {
  const own = rows.filter((row) => row.curve?.name === name);
  const point = (row: Row, seconds: number) => ({ x: row.curve!.x, y: seconds * 1e6 });
  const series: Series[] = configurations.flatMap((configuration, color) => {
    const points = own.filter((row) => row.configuration === configuration);
    if (points.length === 0) return [];
    return { name: configuration, color, dashed: false, points: points.map((row) => point(row, row.median)) };
  });
  // The others were measured once for all configurations.
  const compared = new Map(own.flatMap((row) => (row.comparison === undefined ? [] : [[row.curve!.x, row]])));
  if (compared.size > 0)
    series.push({
      name: [...compared.values()][0]!.comparison!.against,
      color: anchorColor,
      dashed: true,
      points: [...compared.values()].map((row) => point(row, row.comparison!.median)),
    });
  const xLabel = xLabels[own[0]!.operation] ?? "size";
  return lineChart({ title: `${name}: time against size`, xLabel, yLabel: "microseconds", series });
}

function againstAnchors(rows: readonly Row[], configurations: readonly string[]): string {
  const names = [...new Set(rows.map((row) => row.case))];
  return dotPlot({
    title: "How many times as fast as what it is compared with",
    xLabel: "ratio of the rates",
    legend: configurations.map((name, color) => ({ name, color })),
    rows: names.map((name) => {
      const own = rows.filter((row) => row.case === name);
      const { against, atLeast } = own[0]!.comparison!;
      // Another case of ours has a long name: it is the plain form of this one.
      const other = rows.some((row) => row.case === against) ? "plain form" : against;
      const dots = own.map(({ configuration, comparison, unstable }) => ({
        value: comparison!.ratio,
        best: comparison!.bestRatio,
        color: configurations.indexOf(configuration),
        unsure: unstable,
      }));
      return { label: `${name} / ${other}`, goal: atLeast, dots };
    }),
  });
}
