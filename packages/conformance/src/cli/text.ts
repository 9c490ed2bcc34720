import {
  type ConformanceReport,
  formatCount,
  formatRatio,
  formatTime,
  isUnchanged,
  type LawReport,
  type OperationReport,
  type ReportDiff,
  type StatusChange,
} from "../report/index.js";
import type { WrongValues } from "../workspace.js";

/** The command for a replay: the program, the module, and the choice of the backend in it. */
export interface Command {
  readonly module: string;
  readonly exportName: string | undefined;
  /** Present if the module has several. */
  readonly configuration: string | undefined;
  readonly grade: string;
}

/** Everything about one broken law, for the terminal. */
export function failureText(law: LawReport, command: Command): string {
  const failure = law.failure!;
  const { values } = failure;
  const lines: [string, string][] = [];
  if (law.operation !== null)
    lines.push(["operation", [law.operation, law.dtype].filter((part) => part !== null).join(" ")]);
  // A line for a test has the case in it.
  if (failure.case !== null && failure.paste === null) lines.push(["case", failure.case]);
  if (failure.guard !== null) lines.push(["guard", failure.guard]);
  if (values === null && failure.guard === null) lines.push(["reason", failure.reason]);
  if (values !== null) lines.push(...valueLines(values, failure.reason));
  if (failure.paste !== null) lines.push(["in a test", failure.paste]);
  lines.push(["replay", replayCommand(failure.replay, command)]);
  const indented = lines.map(
    ([name, text]) => `  ${name.padEnd(10)} ${text.replaceAll("\n", `\n${" ".repeat(13)}`)}`,
  );
  return [`BROKEN ${law.id}`, ...indented, ""].join("\n");
}

function valueLines(values: WrongValues, reason: string): [string, string][] {
  const { first, wrong, total, from, got, expected, error, allowed } = values;
  // The text that a law puts before the numbers, such as the function and its argument.
  const before = reason.slice(0, Math.max(0, reason.indexOf(`${wrong} of ${total} results`)));
  const indices = got.map((_, i) => String(from + i));
  const width = Math.max(...[...indices, ...got, ...expected].map((text) => text.length));
  const row = (texts: readonly string[]) => texts.map((text) => text.padStart(width)).join("  ");
  const mark = row(indices.map((_, i) => (from + i === first ? "^" : ""))).trimEnd();
  return [
    [
      "wrong",
      `${before}${wrong} of ${total} results, first result ${first}: error ${error}, allowed ${allowed}`,
    ],
    ["result", row(indices)],
    ["got", row(got)],
    ["expected", row(expected)],
    ["", mark],
  ];
}

/** The command that tries a failing case again. */
export function replayCommand(replay: unknown, command: Command): string {
  const { module, exportName, configuration, grade } = command;
  return [
    "npx @backplane/conformance",
    quoted(module),
    ...(exportName === undefined ? [] : ["--export", quoted(exportName)]),
    ...(configuration === undefined ? [] : ["--config", quoted(configuration)]),
    ...(grade === "must" ? [] : ["--grade", grade]),
    "--replay",
    quoted(JSON.stringify(replay)),
  ].join(" ");
}

/** Quotes a text so that a shell takes it for one word. */
function quoted(text: string): string {
  if (/^[\w./@:-]+$/.test(text)) return text;
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Returns the closing summary: the operations tried and those that the backend lacks, the promises, the laws not reached, and the counts. */
export function summaryText(report: ConformanceReport): string {
  const { totals, run } = report;
  const numerics = report.numerics
    .filter(({ observed }) => observed !== null)
    .map(({ promise, declared, promised, observed }) =>
      declared === promised
        ? `  ${promise.padEnd(14)} ${declared} is declared and ${observed}`
        : `  ${promise.padEnd(14)} declared ${declared}; ${promised} ${observed}`,
    );
  const asked = report.operations.filter(
    ({ operation, dtype }) =>
      (run.filters.operations?.includes(operation) ?? true) && (run.filters.dtypes?.includes(dtype) ?? true),
  );
  const operations = report.operations.filter(({ cases }) => cases > 0);
  const counts = (["kept", "broken", "skipped", "unfinished"] as const)
    .filter((status) => status === "kept" || totals[status] > 0)
    .map((status) => `${totals[status]} ${status}`);
  const seeds =
    run.seeds.length === 1 ? `seed ${run.seeds[0]}` : `${run.seeds.length} seeds from ${run.seeds[0]}`;
  return [
    ...(operations.length === 0 ? [] : ["", ...table(operations)]),
    ...unsupportedText(asked),
    ...(numerics.length === 0 ? [] : ["", "numerics", ...numerics]),
    "",
    ...(run.note === null ? [] : [run.note]),
    `${counts.join(", ")}; ${formatCount(totals.cases)} cases, ${seeds}, ${formatTime(run.milliseconds)}`,
    "",
  ].join("\n");
}

/** One line for all: a backend that has just been begun lacks most operations. */
function unsupportedText(operations: readonly OperationReport[]): string[] {
  const names = [...new Set(operations.map(({ operation }) => operation))];
  const whole: string[] = [];
  const parts: string[] = [];
  for (const name of names) {
    const types = operations.filter(({ operation }) => operation === name);
    const missing = types.filter(({ supported }) => !supported).map(({ dtype }) => dtype);
    if (missing.length === types.length) whole.push(name);
    else if (missing.length > 0) parts.push(`${name} in ${missing.join(", ")}`);
  }
  const count = `${whole.length} of ${names.length} operations (${whole.join(", ")})`;
  const lacking = [...(whole.length > 0 ? [count] : []), ...parts];
  return lacking.length === 0 ? [] : ["", `unsupported: ${lacking.join("; ")}`];
}

function table(operations: readonly OperationReport[]): string[] {
  const rows = operations.map((operation) => [
    `${operation.operation} ${operation.dtype}`,
    ...[String(operation.kept), String(operation.broken)],
    ...[formatRatio(operation.worst), formatRatio(operation.worstTight)],
    ...[formatCount(operation.cases), formatTime(operation.milliseconds)],
  ]);
  const header = ["operation", "kept", "broken", "error/tolerance", "tight", "cases", "time"];
  const widths = header.map((name, i) => Math.max(name.length, ...rows.map((row) => row[i]!.length)));
  return [header, ...rows].map((row) =>
    row
      .map((text, i) => (i === 0 ? text.padEnd(widths[i]!) : text.padStart(widths[i]!)))
      .join("  ")
      .trimEnd(),
  );
}

/** Returns the changes since an earlier report, as text. */
export function diffText(diff: ReportDiff): string {
  const lines = [`compared with ${diff.before.name} of ${diff.before.startedAt}`];
  lines.push(...diff.remarks.map((remark) => `  (${remark})`));
  if (isUnchanged(diff)) lines.push("  nothing has changed");
  const list = (title: string, changes: readonly StatusChange[]) => {
    for (const { law, before, reason } of changes)
      lines.push(
        `  ${title} ${law} (was ${before})${reason === null ? "" : `: ${reason.split("\n", 1)[0]}`}`,
      );
  };
  list("now broken:", diff.broken);
  list("now kept:", [...diff.fixed, ...diff.gained]);
  list("no longer tried:", diff.lost);
  for (const law of diff.missing) lines.push(`  missing: ${law}`);
  for (const law of diff.added) lines.push(`  new: ${law}`);
  for (const { law, before, after } of diff.ratios)
    lines.push(`  error/tolerance ${formatRatio(before)} -> ${formatRatio(after)}: ${law}`);
  return `${lines.join("\n")}\n`;
}
