import type { LawStatus } from "../bench.js";
import type { ConformanceReport, LawReport } from "./report.js";

/** The changes from one report to a later one. */
export interface ReportDiff {
  /** Names of the subjects, and when they were tested. */
  readonly before: { readonly name: string; readonly startedAt: string };
  readonly after: { readonly name: string; readonly startedAt: string };
  /** Differences between the runs that make a comparison of their results less telling, in words. */
  readonly remarks: readonly string[];
  /** Laws that are broken now and were not. */
  readonly broken: readonly StatusChange[];
  /** Laws that are kept now and were broken. */
  readonly fixed: readonly StatusChange[];
  /** Laws that are skipped or unfinished now and were kept or broken. */
  readonly lost: readonly StatusChange[];
  /** Laws that are kept now and were skipped or unfinished. */
  readonly gained: readonly StatusChange[];
  /** Ids of laws that only the earlier report has. */
  readonly missing: readonly string[];
  /** Ids of laws that only the later report has. */
  readonly added: readonly string[];
  /** Laws whose worst error / tolerance has more than doubled or halved, the largest growth first. */
  readonly ratios: readonly RatioChange[];
}

export interface StatusChange {
  readonly law: string;
  readonly before: LawStatus;
  readonly after: LawStatus;
  /** The reason for the present status: how the law was broken, or why it was not tried. Null if it is kept. */
  readonly reason: string | null;
}

export interface RatioChange {
  readonly law: string;
  readonly before: number;
  readonly after: number;
}

/** Changes of a ratio below this part of a tolerance say nothing. */
const smallestRatio = 2 ** -6;

/** Compares two reports, law by law. */
export function diffReports(before: ConformanceReport, after: ConformanceReport): ReportDiff {
  const earlier = new Map(before.laws.map((law) => [law.id, law]));
  const later = new Map(after.laws.map((law) => [law.id, law]));
  const pairs = after.laws.flatMap((law): [LawReport, LawReport][] => {
    const old = earlier.get(law.id);
    return old === undefined ? [] : [[old, law]];
  });
  const changes = pairs
    .filter(([a, b]) => a.status !== b.status)
    .map(
      ([a, b]): StatusChange => ({
        ...{ law: a.id, before: a.status, after: b.status },
        reason: b.failure?.reason ?? b.reason,
      }),
    );
  const wasTried = (status: LawStatus) => status === "kept" || status === "broken";
  return {
    before: { name: before.subject.name, startedAt: before.run.startedAt },
    after: { name: after.subject.name, startedAt: after.run.startedAt },
    remarks: remarks(before, after),
    broken: changes.filter((change) => change.after === "broken"),
    fixed: changes.filter((change) => change.after === "kept" && change.before === "broken"),
    lost: changes.filter((change) => wasTried(change.before) && !wasTried(change.after)),
    gained: changes.filter((change) => change.after === "kept" && !wasTried(change.before)),
    missing: [...earlier.keys()].filter((id) => !later.has(id)),
    added: [...later.keys()].filter((id) => !earlier.has(id)),
    ratios: ratioChanges(pairs),
  };
}

/** Whether nothing that a report shows has changed. */
export function isUnchanged(diff: ReportDiff): boolean {
  const { broken, fixed, lost, gained, missing, added, ratios } = diff;
  return [broken, fixed, lost, gained, missing, added, ratios].every((list) => list.length === 0);
}

function ratioChanges(pairs: readonly (readonly [LawReport, LawReport])[]): RatioChange[] {
  const changes: RatioChange[] = [];
  for (const [{ worst: before, id: law }, { worst: after }] of pairs) {
    if (before === null || after === null || Math.max(before, after) < smallestRatio) continue;
    if (after > 2 * before || before > 2 * after) changes.push({ law, before, after });
  }
  const growth = ({ before, after }: RatioChange) => Math.max(after, 1e-300) / Math.max(before, 1e-300);
  return changes.sort((a, b) => growth(b) - growth(a));
}

function remarks(before: ConformanceReport, after: ConformanceReport): string[] {
  const facts = (report: ConformanceReport): Record<string, string> => ({
    backend: report.subject.backend,
    device: report.subject.device.name,
    runtime: report.run.environment.runtime,
    platform: report.run.environment.platform,
    suite: report.suiteVersion,
    mode: report.run.mode,
    grade: report.run.grade,
    "first seed": String(report.run.seeds[0]),
    "cases per law": String(report.run.runs),
    filters: JSON.stringify(report.run.filters),
  });
  const [old, now] = [facts(before), facts(after)];
  return Object.keys(old)
    .filter((name) => old[name] !== now[name])
    .map((name) => `${name}: ${old[name]} before, ${now[name]} now`);
}
