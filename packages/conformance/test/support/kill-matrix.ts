// How docs/kill-matrix.md is written and read back.
import { readFileSync } from "node:fs";
import { laws, type Mutant } from "#src/index.js";

export const matrixFile: URL = new URL("../../../../docs/kill-matrix.md", import.meta.url);

/** Between these lines the file is generated; the rest of it is written by hand. */
const begin = "<!-- generated: the matrix -->";
const end = "<!-- generated: end -->";

/** Topics in the order of the suite. */
export const topics: readonly string[] = [...new Set(laws.map(({ topic }) => topic))];

/** What became of one mutant. */
export interface Death {
  readonly mutant: Pick<Mutant, "name" | "defect" | "operation">;
  /** Laws broken, by topic. */
  readonly broken: ReadonlyMap<string, number>;
  /** The first law to break, in the order of the suite, and seconds from the start of the run to then. */
  readonly first: string | undefined;
  readonly seconds: number;
}

/** Topics whose first letters are those of another one. */
const shortened: Readonly<Record<string, string>> = {
  batchedGemm: "bat",
  scatter: "scat",
  resize2d: "resi",
  softmaxGradient: "sogr",
  normalizeGradient: "nogr",
  pool2dGradient: "pogr",
  resize2dGradient: "regr",
  conv2dInputGradient: "cigr",
  conv2dFilterGradient: "cfgr",
  attentionGradient: "atgr",
  quantizedGemm: "qgem",
};

/** Columns of the matrix: topics by their first letters. */
export function columnOf(topic: string): string {
  return shortened[topic] ?? topic.slice(0, 3);
}

/** After the seconds of a row that was not measured with all others. */
const star = "*";

function rowOf({ mutant, broken, first, seconds }: Death, mark = ""): string {
  const cells = topics.map((topic) => broken.get(topic) ?? "");
  const what = [mutant.operation, mutant.defect].filter((part) => part !== undefined).join(", ");
  return `| ${[mutant.name, what, first ?? "none", `${seconds.toFixed(1)}${mark}`, ...cells].join(" | ")} |`;
}

/** Cells before those of the topics. */
const facts = ["defective backend", "defect", "first law to break", "s"];

function headerLines(): readonly string[] {
  const header = [...facts, ...topics.map(columnOf)];
  return [`| ${header.join(" | ")} |`, `| ${header.map((_, i) => (i < 3 ? "---" : "--:")).join(" | ")} |`];
}

function cellsOf(line: string): readonly string[] {
  return line.slice(2, -2).split(" | ");
}

/** A row under an older header, in the columns that there are now. */
function movedRow(line: string, header: readonly string[]): string {
  const cells = cellsOf(line);
  const counts = topics.map((topic) => {
    const column = header.indexOf(columnOf(topic), facts.length);
    return column < 0 ? "" : (cells[column] ?? "").trim();
  });
  return `| ${[...cells.slice(0, facts.length), ...counts].join(" | ")} |`;
}

const topicsStart = "A number says how many laws on a topic reject the backend. Topics: ";

function topicsLine(): string {
  return `${topicsStart}${topics.join(", ")}.`;
}

export function matrixText(deaths: readonly Death[], runs: number): string {
  const times = deaths.map(({ seconds }) => seconds).toSorted((a, b) => a - b);
  const late = times.at(-1) ?? 0;
  const half = times[Math.floor(times.length / 2)] ?? 0;
  return [
    `${deaths.length} defective backends against ${laws.length} laws, ${runs} random cases for each law, seed 1.`,
    `Time to the first broken law: half of them within ${half.toFixed(1)} s, all within ${late.toFixed(1)} s.`,
    topicsLine(),
    "",
    ...headerLines(),
    ...deaths.map((death) => rowOf(death)),
  ].join("\n");
}

/** The file with another matrix. */
export function withMatrix(text: string, matrix: string): string {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`the file lacks the lines "${begin}" and "${end}"`);
  return `${text.slice(0, from + begin.length)}\n\n${matrix}\n\n${text.slice(to)}`;
}

/**
 * The file with some rows measured again, or for the first time, and all of them in the order of the
 * mutants. What stands above the rows is about those that were measured together; the others have a star.
 */
export function withRows(
  text: string,
  deaths: readonly Death[],
  mutants: readonly Pick<Mutant, "name">[],
): string {
  const matrix = text
    .slice(text.indexOf(begin) + begin.length, text.indexOf(end))
    .trim()
    .split("\n");
  const head = matrix.findIndex((line) => line.startsWith("|"));
  const header = cellsOf(matrix[head]!);
  const rows = new Map(
    matrix.slice(head + 2).map((line) => [line.slice(2).split(" | ", 1)[0]!, movedRow(line, header)]),
  );
  const intro = matrix.slice(0, head).filter((line) => line !== "");
  for (const death of deaths) rows.set(death.mutant.name, rowOf(death, star));
  return withMatrix(
    text,
    [
      ...intro.filter((line) => line !== later && !line.startsWith(topicsStart)),
      topicsLine(),
      later,
      "",
      ...headerLines(),
      ...mutants.flatMap(({ name }) => rows.get(name) ?? []),
    ].join("\n"),
  );
}

const later =
  "Rows with a star were measured since, some of them in quick mode, against the laws there were then.";

export interface MatrixRow {
  readonly name: string;
  readonly what: string;
  readonly first: string;
  readonly counts: ReadonlyMap<string, number>;
}

/** The rows of the matrix in the file. */
export function readMatrix(text: string = readFileSync(matrixFile, "utf8")): readonly MatrixRow[] {
  const matrix = text.slice(text.indexOf(begin), text.indexOf(end));
  const lines = matrix.split("\n").filter((line) => line.startsWith("|"));
  return lines.slice(2).map((line) => {
    const [name = "", what = "", first = "", , ...counts] = line.slice(2, -2).split(" | ");
    return { name, what, first, counts: new Map(topics.map((topic, i) => [topic, Number(counts[i] ?? 0)])) };
  });
}
