import type { ReportDiff, StatusChange } from "./diff.js";
import {
  cellVerdict,
  contractTopics,
  declaredText,
  facts,
  formatArguments,
  formatCount,
  formatCounts,
  formatMoment,
  formatRatio,
  formatTime,
  formatUnits,
  judgePromise,
  judgeUnits,
  observedText,
  rangeText,
  replayCommand,
  shortReason,
  signs,
  verdictOf,
} from "./format.js";
import type { ConformanceReport, LawReport } from "./report.js";

/** Renders a report as Markdown that is also readable as plain text. If `diff` is given, shows the changes. */
export function renderMarkdown(report: ConformanceReport, diff?: ReportDiff): string {
  const verdict = verdictOf(report);
  const sections = [
    `# Conformance of ${inline(report.subject.name)}`,
    [`**${signs[verdict.status]} ${verdict.headline}.**`, ...verdict.remarks.map(inline)].join(" "),
    facts(report)
      .map(([name, value]) => `- ${inline(name)}: ${inline(value)}`)
      .join("\n"),
    ...(diff === undefined ? [] : changes(diff)),
    ...operations(report),
    ...contract(report),
    ...numerics(report),
    ...accuracy(report),
    ...failures(report.laws),
  ];
  return `${sections.join("\n\n")}\n`;
}

function operations(report: ConformanceReport): readonly string[] {
  if (report.operations.length === 0) return [];
  const rows = report.operations.map((operation) => [
    inline(operation.operation),
    operation.dtype,
    cellVerdict(operation).text,
    ...[operation.kept, operation.broken, operation.skipped, operation.unfinished].map(count),
    formatRatio(operation.worst),
    formatRatio(operation.worstTight),
    formatCount(operation.cases),
    formatTime(operation.milliseconds),
  ]);
  const header = ["operation", "type", "result", "kept", "broken", "skipped", "unfinished", "worst", "tight"];
  const missing = report.operations.flatMap(({ operation, dtype, kinds }) =>
    kinds === null || kinds.missing.length === 0
      ? []
      : [`- ${operation} in ${dtype} is without ${kinds.missing.map(inline).join(", ")}`],
  );
  return [
    "## Operations",
    table([...header, "cases", "time"], rows, `lll${"r".repeat(8)}`),
    "worst: largest error / tolerance, of which 1 is all that is allowed; tight: the same by the bounds " +
      "of correctly rounded arithmetic.",
    ...(missing.length === 0 ? [] : [missing.join("\n")]),
  ];
}

function contract(report: ConformanceReport): readonly string[] {
  const topics = contractTopics(report);
  if (topics.length === 0) return [];
  const rows = topics.map(({ topic, status, counts, cases, milliseconds }) => [
    inline(topic),
    `${signs[status]} ${formatCounts(counts)}`,
    formatCount(cases),
    formatTime(milliseconds),
  ]);
  return ["## The contract around them", table(["topic", "laws", "cases", "time"], rows, "llrr")];
}

function numerics(report: ConformanceReport): readonly string[] {
  if (report.numerics.length === 0) return [];
  const rows = report.numerics.map((promise) => [
    promise.promise,
    inline(declaredText(promise.declared)),
    inline(observedText(promise)),
    judgePromise(promise).text,
  ]);
  const against = report.numerics.flatMap(({ evidence }) =>
    evidence
      .filter(({ held }) => !held)
      .map(({ law, detail }) => `- ${inline(law)}${detail === null ? "" : `: ${inline(detail)}`}`),
  );
  return [
    "## Numerics, declared and observed",
    table(["promise", "declared", "observed", ""], rows, "llll"),
    ...(against.length === 0 ? [] : [`Where it does not hold:\n\n${against.join("\n")}`]),
  ];
}

function accuracy(report: ConformanceReport): readonly string[] {
  if (report.accuracy.length === 0) return [];
  const rows = report.accuracy.flatMap(({ kind, ranges }) =>
    ranges.map((range) => [
      kind,
      inline(rangeText(range)),
      formatUnits(range.declared),
      formatUnits(range.observed),
      formatArguments(range),
      judgeUnits(range).text,
    ]),
  );
  return [
    "## Accuracy, declared and observed",
    table(["function", "arguments", "declared", "observed", "at", ""], rows, "llrrll"),
    "Largest errors in f32, in units in the last place; 0.5 is correct rounding. Where nothing is declared, only " +
      "the least bounds of all backends hold.",
  ];
}

function failures(laws: readonly LawReport[]): readonly string[] {
  const broken = laws.filter(({ status }) => status === "broken");
  if (broken.length === 0) return [];
  return ["## Failures", ...broken.flatMap(failureOf)];
}

function failureOf({ id, failure, reason }: LawReport): readonly string[] {
  const title = `### ${signs.broken} ${inline(id)}`;
  if (failure === null) return [title, inline(reason ?? "No more is known.")];
  const { values } = failure;
  const lines = [title, inline(shortReason(failure))];
  if (failure.guard !== null && failure.guard !== failure.reason)
    lines.push(`Overwritten: ${inline(failure.guard)}`);
  if (values !== null) {
    const header = ["result", ...values.expected.map((_, i) => String(values.from + i))];
    const mark = (text: string, i: number) =>
      values.from + i === values.first ? `**${inline(text)}**` : inline(text);
    lines.push(
      table(
        header,
        [
          ["got", ...values.got.map(mark)],
          ["expected", ...values.expected.map(mark)],
        ],
        `l${"r".repeat(values.expected.length)}`,
      ),
    );
  }
  if (failure.case !== null) lines.push(`The smallest case found:\n\n${fenced(failure.case, "js")}`);
  if (failure.paste !== null) lines.push(`In a test:\n\n${fenced(failure.paste, "js")}`);
  lines.push(`Again:\n\n${fenced(replayCommand(failure.replay), "sh")}`);
  return lines;
}

function changes(diff: ReportDiff): readonly string[] {
  const { before, after } = diff;
  const lists = [
    changed("Broken now", diff.broken),
    changed("Fixed", diff.fixed),
    changed("No longer tried to the end", diff.lost),
    changed("Tried and kept now", diff.gained),
    bullets(
      "Error / tolerance at least doubled or halved",
      diff.ratios.map(
        (ratio) => `${inline(ratio.law)}: ${formatRatio(ratio.before)} → ${formatRatio(ratio.after)}`,
      ),
    ),
    ids("Laws that were not in the earlier report", diff.added),
    ids("Laws of the earlier report that are not in this one", diff.missing),
  ].flat();
  return [
    "## Changes",
    `From ${inline(before.name)}, ${inline(formatMoment(before.startedAt))}, to ${inline(after.name)}, ${inline(formatMoment(after.startedAt))}.`,
    ...(diff.remarks.length === 0
      ? []
      : [diff.remarks.map((remark) => `- Note: ${inline(remark)}`).join("\n")]),
    ...(lists.length === 0 ? ["Nothing has changed."] : lists),
  ];
}

function changed(title: string, list: readonly StatusChange[]): readonly string[] {
  return bullets(
    title,
    list.map(({ law, before, after, reason }) => {
      const why = reason === null ? "" : `: ${inline(reason)}`;
      return `${signs[after]} ${inline(law)} (${before} → ${after})${why}`;
    }),
  );
}

const most = 12;

function ids(title: string, list: readonly string[]): readonly string[] {
  // All of them are in the reports themselves.
  const rest = list.length - most;
  const shown = rest > 1 ? list.slice(0, most) : list;
  return bullets(title, [...shown.map(inline), ...(rest > 1 ? [`… and ${rest} more`] : [])], list.length);
}

function bullets(title: string, lines: readonly string[], length = lines.length): readonly string[] {
  if (lines.length === 0) return [];
  return [`${title} (${length}):\n\n${lines.map((line) => `- ${line}`).join("\n")}`];
}

function count(value: number): string {
  return value === 0 ? "" : formatCount(value);
}

/** A table with aligned columns; `alignment` has `l` or `r` for each. */
function table(header: readonly string[], rows: readonly (readonly string[])[], alignment: string): string {
  const widths = header.map((title, i) =>
    Math.max(3, ...[title, ...rows.map((row) => row[i] ?? "")].map(lengthOf)),
  );
  const line = (cells: readonly string[]) =>
    `| ${widths.map((width, i) => pad(cells[i] ?? "", width, alignment[i] === "r")).join(" | ")} |`;
  const rule = widths.map((width, i) =>
    alignment[i] === "r" ? `${"-".repeat(width - 1)}:` : "-".repeat(width),
  );
  return [line(header), line(rule), ...rows.map(line)].join("\n");
}

function lengthOf(text: string): number {
  return [...text].length;
}

function pad(text: string, width: number, right: boolean): string {
  const space = " ".repeat(width - lengthOf(text));
  return right ? space + text : text + space;
}

/** Returns one line of text in which nothing reads as Markdown or HTML. Escapes no more than it must. */
function inline(text: string): string {
  return text
    .replace(/\s+/g, " ")
    .trim()
    .replace(/[\\`*_<|]|~(?=~)|&(?=#?\w+;)|\](?=[([:])/g, "\\$&")
    .replace(/^(?:[>#[]|[-+](?= ))/, "\\$&")
    .replace(/^(\d+)(?=[.)] )/, "$1\\");
}

/** A block of code, fenced by more backticks than it holds in a row. */
function fenced(text: string, language: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}
