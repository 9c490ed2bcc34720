import { latest } from "./drawings.js";
import { percent, rate, ratioText, timeText } from "./lines.js";
import type { Comparison, Report, Row } from "./result.js";

/** The markers before and after the table in a document. */
export const tableStart = "<!-- table of results -->";
export const tableEnd = "<!-- end of table -->";

/** Times that are closer than this, as a share, are told once. */
const ALIKE = 0.05;

/**
 * Returns every row that is not a point of a curve as a Markdown table; unstable ones are marked. Leaves out
 * rows of a case that take as long as the first configuration that was measured.
 */
export function markdownTable(reports: readonly Report[]): string {
  const all = latest(reports).filter(({ curve }) => curve === undefined);
  const firsts = new Map<string, Row>();
  for (const row of all) if (!firsts.has(row.case)) firsts.set(row.case, row);
  const rows = all.filter((row) => {
    const first = firsts.get(row.case)!;
    return row === first || Math.abs(row.median / first.median - 1) > ALIKE;
  });
  return [
    "| case | configuration | us | rate | of the floor | ratio | goal |",
    "| --- | --- | ---: | ---: | ---: | --- | --- |",
    ...rows.map((row) => tableRow(row, all)),
  ].join("\n");
}

function tableRow(row: Row, rows: readonly Row[]): string {
  const { comparison, ofFloor, unstable } = row;
  const cells = [
    row.case,
    row.configuration,
    timeText(row.median),
    rate(row),
    ofFloor === undefined ? "" : percent(ofFloor),
    comparison === undefined ? "" : `${ratioText(plain(comparison, rows))}${unstable ? " (unstable)" : ""}`,
    comparison === undefined || comparison.atLeast === 0 ? "" : goalText(comparison),
  ];
  return `| ${cells.join(" | ")} |`;
}

/** Names of cases are long: the one that a case is compared with is its plain form. */
function plain(comparison: Comparison, rows: readonly Row[]): Comparison {
  const isCase = rows.some((row) => row.case === comparison.against);
  return isCase ? { ...comparison, against: "its plain form" } : comparison;
}

function goalText({ ratio, atLeast }: Comparison): string {
  return ratio >= atLeast ? `${atLeast}, reached` : `${atLeast}, missed`;
}

/** Returns the document with another table. Throws if it has no place for one. */
export function withTable(document: string, table: string): string {
  return withSection(document, tableStart, tableEnd, table);
}

/** Returns the document with other text between two of its lines. Throws if it does not have these lines. */
export function withSection(document: string, start: string, end: string, content: string): string {
  const [from, to] = [document.indexOf(start), document.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`the document has no lines ${start} and ${end}`);
  return `${document.slice(0, from)}${start}\n\n${content}\n\n${document.slice(to)}`;
}
