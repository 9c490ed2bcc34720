import { percent, rate, timeText, twoDigits } from "../lines.js";
import { quantile, stableSpread } from "../statistics.js";
import { peerKinds, peerNames } from "./peer.js";
import type { CpuReport, CpuRow, PeerTimes, Ratio } from "./results.js";
import { blasGoal, ceilingGoal, firstGoal, initGoal, scalingGoal } from "./rows.js";

/** The markers before and after this section in a document. */
export const cpuStart = "<!-- results next to other libraries -->";
export const cpuEnd = "<!-- end of results next to other libraries -->";

/**
 * Returns what readers of a page want to know of some runs, as Markdown: a row for each case, with one thread and then
 * with more in each cell. Goals, and which operators were called, are in `cpuDocument` and in the raw results.
 */
export function cpuTables(reports: readonly CpuReport[]): string {
  return reports
    .map((report) => [about(report), casesTable(report), startup(report), reasons(report)])
    .map((parts) => parts.filter((part) => part !== "").join("\n\n"))
    .join("\n\n");
}

function casesTable(report: CpuReport): string {
  const { rows, peers } = report;
  const names = peerNames.filter((name) => peers.some((peer) => peer.name === name));
  const lines = [...new Set(rows.map((row) => row.case))].map((name) => {
    const own = rows.filter((row) => row.case === name);
    const cell = (text: (row: CpuRow) => string) => own.map(text).join("; ");
    return [
      name,
      cell(({ ours }) => timeText(ours.median)),
      rates(own),
      ...names.map((peer) =>
        own.some((row) => ratioTo(row, peer) !== "-") ? cell((row) => ratioTo(row, peer)) : "-",
      ),
      cell(({ ceiling }) => (ceiling === undefined ? "" : percent(ceiling.ratio))).replace(/^; $/, ""),
    ];
  });
  const head = ["case", "us", "rate", ...names, "of the ceiling"];
  const width = lines.some((line) => line.at(-1) !== "") ? head.length : head.length - 1;
  return table(
    head.slice(0, width),
    lines.map((line) => line.slice(0, width)),
  );
}

/** The rates of one case; the unit stands once if it is the same. */
function rates(rows: readonly CpuRow[]): string {
  const texts = rows.map((row) => rate({ ...row, ...row.ours }));
  const units = new Set(texts.map((text) => text.split(" ")[1]));
  if (units.size > 1) return texts.join("; ");
  return `${texts.map((text) => text.split(" ")[0]).join("; ")} ${[...units].join()}`;
}

function ratioTo(row: CpuRow, name: PeerTimes["name"]): string {
  const peer = row.peers.find((one) => one.name === name);
  return peer === undefined ? "-" : ratioText(peer);
}

function startup({ startup }: CpuReport): string {
  const times = (part: "init" | "first" | "second") =>
    startup.map((one) => quantile(one[part], 0.5).toFixed(1)).join("; ");
  if (startup.length === 0) return "";
  return `\`init\` took ${times("init")} ms, the first product of 256^3 ${times("first")}, the second ${times("second")}.`;
}

/** Why libraries are missing, each reason once. */
function reasons({ missing }: CpuReport): string {
  const texts = new Set(missing.map(({ name, reason }) => `${name}: ${reason.replaceAll(/\s+/g, " ")}`));
  return texts.size === 0 ? "" : `"-": ${[...texts].join("; ")}.`;
}

/** Everything that people want to know of a run, as Markdown. */
export function cpuDocument(report: CpuReport): string {
  const parts = [
    about(report),
    peersTable(report),
    productsTable(report),
    startupTable(report),
    operators(report),
    missing(report),
  ];
  return parts.filter((part) => part !== "").join("\n\n");
}

function about(report: CpuReport): string {
  const { date, node, machine, rounds, sampleMilliseconds, instruction, blas, transforms, peers } = report;
  const libraries = peerNames.flatMap((name) => {
    const own = peers.filter((peer) => peer.name === name);
    const [last] = own.slice(-1);
    if (last === undefined) return [];
    const threads = own.map(({ threads, asked }) => `${threads} of ${asked}`).join(", ");
    return [`- ${name} ${last.version} (${peerKinds[name]}; threads: ${threads}): ${last.note}`];
  });
  return [
    `${date.slice(0, 10)}, Node.js ${node.slice(1)}, ${machine}; medians of ${rounds} rounds of samples of ` +
      `${sampleMilliseconds} ms in turns; ours with ${instruction}` +
      `${blas === undefined ? "" : `, and large products by ${blas}`}` +
      `${transforms === undefined ? "" : `, and 3x3 convolutions by transforms of tiles of ${transforms}`}.`,
    ...(libraries.length === 0 ? [] : ["", ...libraries]),
  ].join("\n");
}

/** Returns the fastest peer in WebAssembly; undefined if there is none. */
function bestPeer({ peers }: CpuRow): PeerTimes | undefined {
  const own = peers.filter(({ name }) => peerKinds[name] === "WebAssembly");
  return own.reduce<PeerTimes | undefined>(
    (best, peer) => (best === undefined || peer.ratio < best.ratio ? peer : best),
    undefined,
  );
}

/** Our times, how many times as fast we were as each peer, and the goal. */
function peersTable(report: CpuReport): string {
  const lines = report.rows.map((row) => {
    const { ours, threads } = row;
    const cells = peerNames.map((name) => {
      const peer = row.peers.find((one) => one.name === name);
      return peer === undefined ? absence(report, row, name) : ratioText(peer);
    });
    return [
      row.case,
      threads,
      timeText(ours.median),
      rate({ ...row, ...ours }),
      ...cells,
      goalText(row, report),
    ];
  });
  return table(["case", "threads", "us", "rate", ...peerNames, "goal"], lines);
}

/** Rounded down, so that no missed goal looks reached. */
function ratioText({ ratio, spread }: Ratio): string {
  return `${twoDigits(ratio)}${spread > stableSpread ? "?" : ""}`;
}

function absence({ missing }: CpuReport, row: CpuRow, name: string): string {
  const failed = missing.some(
    (one) => one.name === name && one.threads === row.threads && [row.case, "all"].includes(one.case),
  );
  return failed ? "fails" : "not asked";
}

/**
 * Returns the goal with the peer that decides, and best against best beside it, which is reliable on a busy
 * machine too.
 */
function goalText(row: CpuRow, { blas }: CpuReport): string {
  const native = row.peers.find(({ name }) => peerKinds[name] === "native");
  const isNative = blas !== undefined && row.ceiling !== undefined && native !== undefined;
  const [goal, rival] = isNative ? [blasGoal, native] : [row.goal, bestPeer(row)];
  if (rival === undefined) return `${goal}`;
  return `${reached(goal, rival.ratio >= goal)} (${rival.name}, best ${twoDigits(rival.bestRatio)})`;
}

function reached(goal: number, is: boolean): string {
  return `${goal}, ${is ? "reached" : "missed"}`;
}

function productsTable({ rows }: CpuReport): string {
  const lines = rows.flatMap(({ case: name, threads, ceiling, scaling }) =>
    ceiling === undefined
      ? []
      : [
          [
            name,
            threads,
            `${(ceiling.flopsPerSecond / 1e9).toFixed(1)} GFLOP/s`,
            `${percent(ceiling.ratio)}${ceiling.spread > stableSpread ? "?" : ""}`,
            reached(ceilingGoal, ceiling.ratio >= ceilingGoal),
            scaling === undefined ? "" : ratioText(scaling),
            scaling === undefined ? "" : reached(scalingGoal, scaling.ratio >= scalingGoal),
          ],
        ],
  );
  const head = ["case", "threads", "ceiling", "share of it", "goal", "of one thread", "goal"];
  return lines.length === 0 ? "" : table(head, lines);
}

function startupTable({ startup }: CpuReport): string {
  const middle = (times: readonly number[]) => quantile(times, 0.5);
  const lines = startup.map(({ threads, load, init, first, second }) => [
    threads,
    ...[load, init, first, second].map((times) => middle(times).toFixed(1)),
    `init ${reached(initGoal, middle(init) < initGoal)}; first ${reached(firstGoal, middle(first) < firstGoal)}`,
  ]);
  if (lines.length === 0) return "";
  return table(["threads", "load, ms", "init, ms", "first 256^3, ms", "second, ms", "goal, ms"], lines);
}

/** Which operators of each peer were timed. */
function operators({ rows }: CpuReport): string {
  const lines = peerNames.flatMap((name) => {
    const ways = new Map<string, Set<string>>();
    for (const { operation, peers } of rows)
      for (const peer of peers)
        if (peer.name === name) ways.set(operation, (ways.get(operation) ?? new Set()).add(peer.how));
    const texts = [...ways].map(([operation, how]) => `${operation} (${[...how].join(" / ")})`);
    return texts.length === 0 ? [] : [`- ${name}: ${texts.join("; ")}`];
  });
  return lines.length === 0 ? "" : ["What was called:", "", ...lines].join("\n");
}

function missing({ missing }: CpuReport): string {
  const lines = missing.map(
    ({ case: name, threads, name: who, reason }) =>
      `- ${who}, ${name}, ${threadsText(threads)}: ${reason.replaceAll(/\s+/g, " ")}`,
  );
  return lines.length === 0 ? "" : ["Not measured:", "", ...lines].join("\n");
}

export function threadsText(threads: number): string {
  return threads === 1 ? "1 thread" : `${threads} threads`;
}

/** Words to the left, numbers to the right. */
function table(head: readonly string[], lines: readonly (readonly (string | number)[])[]): string {
  const rule = head.map((name) => (name === "case" || name.startsWith("goal") ? "---" : "---:"));
  return [head, rule, ...lines].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}
