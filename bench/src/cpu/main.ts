import { execFileSync, fork } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { arch, cpus, platform } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { tellSystemErrors } from "@backplane/example-digits/system-errors.js";
import { readResults } from "../command-line.js";
import { withSection } from "../markdown.js";
import { bestInstruction } from "./ceiling.js";
import { cpuDocument, cpuEnd, cpuStart, cpuTables } from "./document.js";
import { cpuDrawing } from "./drawing.js";
import { installPeers } from "./installed.js";
import { rowLines } from "./lines.js";
import type { ThreadsMessage, ThreadsRequest } from "./measure-threads.js";
import { type CpuOptions, help, parseCpuOptions } from "./options.js";
import type { CpuMissing, CpuReport, CpuRow, PeerAbout, Startup } from "./results.js";

/** Processes that are started to time a start. */
const starts = 7;

tellSystemErrors();
process.exitCode = await main();

async function main(): Promise<number> {
  let options: CpuOptions;
  try {
    options = parseCpuOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${help}`);
    return 2;
  }
  if (options.help || options.list) {
    console.log(options.help ? help : options.rows.join("\n"));
    return 0;
  }
  const { from, json, svg, into } = options;
  const reports =
    from.length === 0 ? [await measure(options)] : from.map((path) => readResults<CpuReport>(path, "peers"));
  for (const report of reports) console.log(`\n${cpuDocument(report)}`);
  if (from.length === 0) write(json, `${JSON.stringify(reports[0], null, 1)}\n`);
  if (reports[0]!.rows.length > 0) write(svg, cpuDrawing(reports[0]!));
  if (into !== undefined)
    write(into, withSection(readFileSync(into, "utf8"), cpuStart, cpuEnd, cpuTables(reports)));
  return reports.some(({ missing }) => missing.some(({ name }) => name === "backplane")) ? 1 : 0;
}

function write(path: string, content: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  console.log(path);
}

async function measure(options: CpuOptions): Promise<CpuReport> {
  const { rounds, milliseconds, threads, transforms } = options;
  const failure = options.peers.length === 0 ? undefined : installPeers();
  if (failure !== undefined) console.log(failure);
  const peers: PeerAbout[] = [];
  const rows: CpuRow[] = [];
  const missing: CpuMissing[] = [];
  const startup: Startup[] = [];
  let blas: string | undefined;
  for (const count of threads) {
    startup.push(measureStartup(count));
    await measureThreads({ ...options, threads: count }, (message) => {
      if ("about" in message) {
        const { name, version, threads: had, asked, note } = message.about;
        console.log(`${name} ${version}, ${had} of ${asked} threads: ${note}`);
        peers.push(message.about);
        return;
      }
      if ("blas" in message) {
        blas = message.blas;
        return;
      }
      const result = "missing" in message ? { missing: [message.missing] } : message.result;
      for (const { case: name, name: who, reason } of result.missing)
        console.log(`${name}: ${who}: ${reason}`);
      missing.push(...result.missing);
      if (!("row" in result) || result.row === undefined) return;
      rows.push(result.row);
      console.log(rowLines(result.row));
    });
  }
  // Rows on one and on two threads are next to each other.
  const inOrder = options.rows.flatMap((name) => rows.filter((row) => row.case === name));
  return {
    date: new Date().toISOString(),
    node: process.version,
    machine: `${platform()} ${arch()}, ${cpus().length} x ${cpus()[0]?.model ?? "unknown"}`,
    rounds,
    sampleMilliseconds: milliseconds,
    instruction: bestInstruction(),
    ...(blas === undefined ? {} : { blas }),
    ...(transforms === "never" ? {} : { transforms }),
    peers,
    rows: inOrder,
    startup,
    missing,
  };
}

/** Has a process of its own measure. A process that ends early leaves its rows missing, with the reason. */
function measureThreads(request: ThreadsRequest, tell: (message: ThreadsMessage) => void): Promise<void> {
  const open = new Set(request.rows);
  return new Promise((resolve) => {
    const child = fork(fileURLToPath(new URL("./measure-threads.js", import.meta.url)));
    child.on("message", (message: ThreadsMessage) => {
      if ("result" in message) open.delete(message.result.row?.case ?? message.result.missing[0]!.case);
      tell(message);
    });
    child.once("exit", (code, signal) => {
      const reason = `its process ended with ${signal ?? `exit code ${code}`}`;
      for (const name of open)
        tell({ missing: { case: name, threads: request.threads, name: "backplane", reason } });
      resolve();
    });
    const { threads, rows, peers, blas, transforms, rounds, milliseconds } = request;
    child.send({ threads, rows, peers, blas, transforms, rounds, milliseconds } satisfies ThreadsRequest);
  });
}

function measureStartup(threads: number): Startup {
  const program = fileURLToPath(new URL("./startup.js", import.meta.url));
  const all = Array.from({ length: starts }, () => {
    const text = execFileSync(process.execPath, [program, String(threads)], { encoding: "utf8" });
    return JSON.parse(text) as Readonly<Record<"load" | "init" | "first" | "second", number>>;
  });
  const times = (part: keyof (typeof all)[number]) => all.map((one) => one[part]);
  return {
    threads,
    load: times("load"),
    init: times("init"),
    first: times("first"),
    second: times("second"),
  };
}
