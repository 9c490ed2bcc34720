import type { LawStatus } from "../bench.js";
import type { FailureReport } from "./failure.js";
import type { ConformanceReport, NumericsReport, OperationReport, UnitsReport } from "./report.js";

/** The states of laws, in the order of lists and bars. */
export const statuses: readonly LawStatus[] = ["broken", "unfinished", "kept", "skipped"];

/** Signs that accompany the words, so that nothing depends on colours. */
export const signs: Readonly<Record<LawStatus, string>> = {
  kept: "✓",
  broken: "✗",
  skipped: "–",
  unfinished: "…",
};

/** The outcome of a run in one line. */
export interface Verdict {
  readonly status: LawStatus;
  readonly headline: string;
  /** Sentences that add to the headline. */
  readonly remarks: readonly string[];
}

/** Never says more than was tested: a run cut short or narrowed down says so. */
export function verdictOf({ totals, run }: ConformanceReport): Verdict {
  const remarks: string[] = [];
  const { operations, dtypes, law } = run.filters;
  const chosen = [
    ...(operations === null ? [] : [`operations ${operations.join(", ")}`]),
    ...(dtypes === null ? [] : [`element types ${dtypes.join(", ")}`]),
    ...(law === null ? [] : [`laws matching “${law}”`]),
  ];
  if (run.replay !== null) remarks.push(`A replay of one case of “${run.replay.law}”.`);
  else if (chosen.length > 0) remarks.push(`A part of the suite only: ${chosen.join("; ")}.`);
  if (run.note !== null) remarks.push(sentence(run.note));
  else if (!run.complete) remarks.push("The run was cut short.");

  const bound = totals.laws - totals.skipped;
  if (totals.broken > 0) {
    const headline = `Breaks ${formatCount(totals.broken)} of the ${plural(bound, "law")} that bind it`;
    return { status: "broken", headline, remarks };
  }
  if (totals.unfinished > 0 || !run.complete)
    return { status: "unfinished", headline: "Broke no law, but the run is incomplete", remarks };
  if (totals.kept === 0) return { status: "skipped", headline: "No law was tried", remarks };
  const headline =
    bound === 1 ? "Keeps the one law that binds it" : `Keeps all ${plural(bound, "law")} that bind it`;
  return { status: "kept", headline, remarks };
}

/** The verdict on the laws of one operation and element type. */
export interface CellVerdict {
  readonly status: LawStatus;
  /** The sign included. */
  readonly text: string;
}

export function cellVerdict(operation: OperationReport): CellVerdict {
  const { supported, kept, broken, skipped, unfinished } = operation;
  if (broken > 0) return { status: "broken", text: `${signs.broken} ${formatCount(broken)} broken` };
  if (!supported) return { status: "skipped", text: `${signs.skipped} not supported` };
  if (unfinished > 0)
    return { status: "unfinished", text: `${signs.unfinished} ${formatCount(unfinished)} unfinished` };
  if (kept > 0) return { status: "kept", text: `${signs.kept} ${formatCount(kept)} kept` };
  return { status: "skipped", text: `${signs.skipped} ${skipped > 0 ? "skipped" : "not tried"}` };
}

/** Returns the verdict on a promise of `capabilities.numerics`, given the observations. */
export function judgePromise({ declared, promised, observed }: NumericsReport): CellVerdict {
  if (observed === null) return { status: "skipped", text: `${signs.skipped} not tried` };
  if (declared === promised)
    return observed === "holds"
      ? { status: "kept", text: `${signs.kept} promise kept` }
      : { status: "broken", text: `${signs.broken} promise broken` };
  return observed === "holds"
    ? { status: "skipped", text: `${signs.skipped} not promised, but nothing spoke against it` }
    : { status: "skipped", text: `${signs.skipped} not promised` };
}

/** Returns the verdict on declared units, given the observed ones. */
export function judgeUnits({ declared, observed }: UnitsReport): CellVerdict {
  if (observed === null) return { status: "skipped", text: `${signs.skipped} not tried` };
  if (declared === null) return { status: "skipped", text: `${signs.skipped} not declared` };
  return observed <= declared * (1 + 2 ** -16)
    ? { status: "kept", text: `${signs.kept} kept` }
    : { status: "broken", text: `${signs.broken} exceeded` };
}

/** Returns a text such as `-1 ≤ x < 0`. */
export function rangeText({ from, below }: Pick<UnitsReport, "from" | "below">): string {
  if (from === null) return below === null ? "all" : `x < ${below}`;
  return below === null ? `x ≥ ${from}` : `${from} ≤ x < ${below}`;
}

/** Returns units in the last place with three digits, rounded up. */
export function formatUnits(units: number | null): string {
  if (units === null) return "";
  if (units >= 1e300) return "∞";
  if (units >= 1e4) return units.toExponential(1).replace("e+", "e");
  // 0.5000001 is correct rounding: so little is the inaccuracy of the exact values.
  return String(Math.ceil(units * 1000 - 2 ** -7) / 1000);
}

/** Returns the arguments of an error, such as `(0.5, 3)`. */
export function formatArguments({ at }: UnitsReport): string {
  return at.length === 1 ? String(at[0]) : at.length === 0 ? "" : `(${at.join(", ")})`;
}

/** Returns the observation on a promise, such as `kept: holds`, also if the backend declares something weaker. */
export function observedText({ promised, observed }: NumericsReport): string {
  return observed === null ? "not tried" : `${declaredText(promised)}: ${observed}`;
}

/** The command that tries a failing case again. */
export function replayCommand(replay: unknown): string {
  // A shell changes nothing within single quotes; a quote itself must leave them for a moment.
  return `npx @backplane/conformance ./my-backend.js --replay '${JSON.stringify(replay).replaceAll("'", `'\\''`)}'`;
}

/** An error / tolerance, to two digits. */
export function formatRatio(ratio: number | null): string {
  if (ratio === null) return "";
  if (ratio === 0) return "0";
  if (ratio >= 1e300) return "∞";
  if (ratio >= 1e4 || ratio < 1e-3) return ratio.toExponential(1).replace("e+", "e");
  if (ratio >= 100) return ratio.toFixed(0);
  // A ratio above 1 has broken a law and must not look like 1; nor may a ratio below 1.
  const digits = [2, 3, 4].find((count) => (Number(ratio.toPrecision(count)) === 1) === (ratio === 1));
  if (digits === undefined) return ratio > 1 ? ">1" : "<1";
  return ratio === 1 ? "1" : ratio.toPrecision(digits);
}

export function formatTime(milliseconds: number): string {
  if (milliseconds < 1) return milliseconds === 0 ? "0 ms" : "<1 ms";
  if (milliseconds < 1000) return `${milliseconds.toFixed(0)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  return minutes < 60
    ? `${minutes} min ${whole % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Digits in groups of three. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Returns an ISO 8601 time as people write it. Any other text stays as it is. */
export function formatMoment(moment: string): string {
  return moment.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$/, "$1 $2 UTC");
}

/** Returns the reason without the values, which reports show in a table of their own. */
export function shortReason({ reason, values }: FailureReport): string {
  return values === null ? reason : reason.replace(/; near it.*$/s, "");
}

export function formatBytes(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${Number(value.toPrecision(4))} ${units[unit]}`;
}

/** `1 law`, `2 laws`. */
export function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function declaredText(value: string | boolean): string {
  return typeof value === "boolean" ? (value ? "yes" : "no") : value;
}

/** Returns the further facts about a run, as table rows of name and value. */
export function facts(report: ConformanceReport): readonly (readonly [name: string, value: string])[] {
  const { subject, run, totals, suiteVersion } = report;
  const { device, limits } = subject;
  const software = device.software ? ", emulated in software" : "";
  const details = Object.entries(device.details).map(([name, value]) => `${name}: ${value}`);
  const { seeds } = run;
  const shown = seeds.length > 12 ? [...seeds.slice(0, 11), "…", seeds.at(-1)] : seeds;
  return [
    ["Device", `${device.name} (${device.kind}${software})`],
    ...(details.length === 0 ? [] : [["Details", details.join("; ")] as const]),
    ["Backend", subject.backend],
    ["Element types", subject.dtypes.join(", ") || "none"],
    ["Largest allocation", formatBytes(limits.maxAllocationBytes)],
    ["Mode", `${run.mode}, ${plural(run.runs, "random case")} per law`],
    ["Error bounds", run.grade],
    [seeds.length === 1 ? "Seed" : `Seeds (${formatCount(seeds.length)})`, shown.join(", ")],
    ["Cases", formatCount(totals.cases)],
    ["Time", formatTime(run.milliseconds)],
    ["Started", formatMoment(run.startedAt)],
    ["Runtime", `${run.environment.runtime}, ${run.environment.platform}`],
    ["Suite", `@backplane/conformance ${suiteVersion}`],
  ];
}

/** One row for each topic of the contract: laws that belong to no operation. */
export interface TopicSummary {
  readonly topic: string;
  readonly counts: Readonly<Record<LawStatus, number>>;
  readonly status: LawStatus;
  readonly cases: number;
  readonly milliseconds: number;
}

export function contractTopics({ laws }: ConformanceReport): readonly TopicSummary[] {
  const names = new Set(laws.filter((law) => law.operation === null).map((law) => law.topic));
  return [...names].map((topic) => {
    const own = laws.filter((law) => law.operation === null && law.topic === topic);
    const count = (status: LawStatus) => own.filter((law) => law.status === status).length;
    const counts = {
      ...{ broken: count("broken"), unfinished: count("unfinished") },
      ...{ kept: count("kept"), skipped: count("skipped") },
    };
    return {
      topic,
      counts,
      status: statuses.find((status) => counts[status] > 0)!,
      cases: own.reduce((sum, law) => sum + law.cases, 0),
      milliseconds: own.reduce((sum, law) => sum + law.milliseconds, 0),
    };
  });
}

/** Returns the counts that are not 0, such as `1 broken, 5 kept`. */
export function formatCounts(counts: Readonly<Record<LawStatus, number>>): string {
  const parts = statuses.filter((status) => counts[status] > 0);
  return parts.map((status) => `${formatCount(counts[status])} ${status}`).join(", ");
}

function sentence(text: string): string {
  const trimmed = text.trim();
  const closed = /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
  return closed.charAt(0).toUpperCase() + closed.slice(1);
}
