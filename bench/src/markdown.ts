import { FileError } from "@backplane/example-digits/file-error.js";
import { latest } from "./drawings.js";
import { percent, rate, timeText, twoDigits } from "./lines.js";
import type { Ratio, Report, Row } from "./result.js";
import { stableSpread } from "./statistics.js";

/** The markers before and after the tables in a document. */
export const tableStart = "<!-- table of results -->";
export const tableEnd = "<!-- end of table -->";

/** Times that are closer than this, as a share, are told once. */
const ALIKE = 0.05;

/** Cases whose names end so are compared with other libraries that were measured once. */
const PEERS = ", peers";

/** The tables, and the operations of each. Everything else is in the last one. */
const subjects: Readonly<Record<string, readonly string[]>> = {
  Products: ["gemm", "batchedGemm", "quantizedGemm", "quantize"],
  "Convolutions and images": [
    ...["conv2d", "conv2dInputGradient", "conv2dFilterGradient"],
    ...["pool2d", "pool2dGradient", "resize2d", "resize2dGradient"],
  ],
  Attention: ["attention", "attentionGradient", "rope"],
  "Along an axis": [
    ...["reduce", "argReduce", "scan", "sort"],
    ...["softmax", "softmaxGradient", "normalize", "normalizeGradient"],
  ],
  "Element by element": ["unary", "binary", "map", "select", "random"],
  "Moving elements": ["copy", "gather", "scatter"],
};
const OTHERS = "Calls and transfers";
const PEERS_TITLE = "Next to the best other JavaScript library";

/**
 * Returns every row that is not a point of a curve, in Markdown tables by subject; "?" marks unstable ones. Leaves
 * out configurations by name, and rows of a case that take as long as the first configuration that was measured.
 */
export function markdownTables(reports: readonly Report[], without: readonly string[] = []): string {
  const all = latest(reports).filter(({ curve }) => curve === undefined);
  const cards = new Map(
    reports.flatMap(({ rows, devices }) =>
      rows.map((row) => [row, cardOf(devices?.[row.configuration]?.name)]),
    ),
  );
  const firsts = new Map<string, Row>();
  for (const row of all) if (!firsts.has(row.case)) firsts.set(row.case, row);
  const rows = all.filter((row) => {
    const first = firsts.get(row.case)!;
    return (
      !without.includes(row.configuration) &&
      (row === first ||
        cards.get(row) !== cards.get(first) ||
        Math.abs(row.median / first.median - 1) > ALIKE)
    );
  });
  const titles = [...Object.keys(subjects), OTHERS, PEERS_TITLE];
  const place = ({ operation }: Row, title: string) => (subjects[title] ?? []).indexOf(operation);
  return titles
    .flatMap((title) => {
      const own = rows.filter((row) => subjectOf(row) === title);
      own.sort((one, other) => place(one, title) - place(other, title));
      return own.length === 0 ? [] : [`### ${title}\n\n${table(own, all, cards)}`];
    })
    .join("\n\n");
}

function subjectOf({ case: name, operation }: Row): string {
  if (name.endsWith(PEERS)) return PEERS_TITLE;
  return Object.keys(subjects).find((title) => subjects[title]!.includes(operation)) ?? OTHERS;
}

/** "H100" of "nvidia-h100-80gb-hbm3"; other names as they are. */
function cardOf(name: string | undefined): string {
  return /\b[hHbBaAlL]\d{2,3}\b/.exec(name ?? "")?.[0].toUpperCase() ?? name ?? "";
}

function table(rows: readonly Row[], all: readonly Row[], cards: ReadonlyMap<Row, string>): string {
  const cells = rows.map((row) => {
    const { comparison, anchor, ofFloor, unstable } = row;
    const ratios = [
      ...(comparison === undefined ? [] : [ratioText(plain(comparison, all), unstable)]),
      ...(anchor === undefined ? [] : [ratioText(anchor, anchor.spread > stableSpread)]),
    ];
    return [
      `${row.case.replace(PEERS, "")}${row.configuration === "default" ? "" : `, \`${row.configuration}\``}`,
      cards.get(row)!,
      timeText(row.median),
      rate(row),
      ofFloor === undefined ? "" : percent(ofFloor),
      ratios.length === 0 ? (unstable ? "?" : "") : ratios.join("; "),
    ];
  });
  const head = ["case", "card", "us", "rate", "of the floor", "times as fast"];
  const rule = ["---", "---", "---:", "---:", "---:", "---"];
  // The fourth column is left out if it says nothing.
  const shown = head.map((_, column) => column !== 4 || cells.some((line) => line[column] !== ""));
  return [head, rule, ...cells]
    .map((line) => `| ${line.filter((_, column) => shown[column]).join(" | ")} |`)
    .join("\n");
}

function ratioText({ ratio, against }: Ratio, unstable: boolean): string {
  return `${twoDigits(ratio)}${unstable ? "?" : ""} of ${against}`;
}

/** Names of cases are long: the one that a case is compared with is its plain form. */
function plain(comparison: Ratio, rows: readonly Row[]): Ratio {
  const isCase = rows.some((row) => row.case === comparison.against);
  return isCase ? { ...comparison, against: "its plain form" } : comparison;
}

/** Returns the document with other tables. Throws if it has no place for them. */
export function withTables(document: string, tables: string): string {
  return withSection(document, tableStart, tableEnd, tables);
}

/** Returns the document with other text between two of its lines. Throws if it does not have these lines. */
export function withSection(document: string, start: string, end: string, content: string): string {
  const [from, to] = [document.indexOf(start), document.indexOf(end)];
  if (from < 0 || to < from) throw new FileError(`the document has no lines ${start} and ${end}`);
  return `${document.slice(0, from)}${start}\n\n${content}\n\n${document.slice(to)}`;
}
