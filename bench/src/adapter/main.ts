import { fork } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type OperationName, operationNames } from "@backplane/core";
import { type PartReport, type PartSettings, parts, runPart } from "./parts.js";

const help = `Puts the WebGPU adapter at hand before the laws of the conformance suite in every tier that it can do, with
parameters in immediates and in buffers, with operands in segments, and with each kernel forced by name.

  --only TEXT   only parts whose name contains TEXT; may be repeated
  --ops LIST    only laws on these operations, with commas between
  --jobs N      parts that run at a time, each in a process of its own (default 1)
  --mode MODE   quick or default (default): how many cases of each law
  --seed N      start of the random search (default 1)
  --json FILE   also write the reports, after each part anew
  --list        the names of the parts
  --help        this text

What the adapter cannot do is listed as not possible, with the reason. Exit code: 0 all laws kept, 1 a law
broken or unfinished or a part that ended before its report, 2 bad usage.`;

/** The parent's request to a process. */
interface Request extends PartSettings {
  readonly part: string;
}

if (process.send === undefined) process.exitCode = await main();
else
  process.once("message", async ({ part, ...settings }: Request) => {
    const report = await runPart(parts.find(({ name }) => name === part)!, settings);
    process.send!(report, () => process.disconnect());
  });

async function main(): Promise<number> {
  const options = parse();
  if (typeof options === "string") {
    console.error(`${options}\n\n${help}`);
    return 2;
  }
  const { only, operations } = options;
  const chosen = parts.filter(
    (part) =>
      (only.length === 0 || only.some((text) => part.name.includes(text))) &&
      (part.operations?.some((name) => operations?.includes(name) ?? true) ?? true),
  );
  if (options.help || options.list) {
    console.log(options.help ? help : chosen.map(({ name }) => name).join("\n"));
    return 0;
  }
  const reports: PartReport[] = [];
  const lost: string[] = [];
  const remaining = chosen.values();
  const work = async (): Promise<void> => {
    for (const { name } of remaining) {
      const report = await inChild({ part: name, ...options });
      if (typeof report === "string") {
        lost.push(`${name}: ${report}`);
        console.log(`${name}: ${report}`);
        continue;
      }
      reports.push(report);
      console.log(line(report));
      if (options.json !== undefined) await writeFile(options.json, document(reports, lost, options));
    }
  };
  await Promise.all(Array.from({ length: options.jobs }, work));
  const bad = reports.filter(({ broken, unfinished }) => broken.length + unfinished.length > 0).length;
  const possible = reports.filter(({ impossible }) => impossible === undefined).length;
  console.log(
    `${chosen.length} parts, ${possible} possible on ${reports[0]?.device}; ${bad + lost.length} failed`,
  );
  if (options.json !== undefined) await writeFile(options.json, document(reports, lost, options));
  return bad + lost.length === 0 && possible > 0 ? 0 : 1;
}

/** The report of a process of its own, or how it ended without. */
function inChild(request: Request): Promise<PartReport | string> {
  return new Promise((resolve) => {
    const child = fork(fileURLToPath(import.meta.url), {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      serialization: "advanced", // An error of a law may be infinite, which JSON cannot say.
    });
    let complaint = "";
    child.stderr!.on("data", (bytes: Buffer) => {
      complaint = (complaint + bytes.toString()).slice(-2000);
    });
    let report: PartReport | undefined;
    child.once("message", (message) => {
      report = message as PartReport;
    });
    child.once("close", (code, signal) => {
      const ending = signal === null ? `exit code ${code}` : `ended by ${signal}`;
      resolve(report !== undefined && code === 0 ? report : `${ending}: ${complaint.trim()}`);
    });
    child.send(request);
  });
}

function line({ name, impossible, kept, broken, skipped, unfinished, worst, seconds }: PartReport): string {
  const result =
    impossible === undefined
      ? `${kept} laws kept, ${broken.length} broken, ${skipped} not promised, ${unfinished.length} unfinished`
      : `not possible: ${impossible}`;
  const figures = impossible === undefined ? `; largest error ${worst.toFixed(2)} of the allowed` : "";
  return [`${name}: ${result}${figures}, ${seconds.toFixed(0)} s`, ...broken.map((text) => `  ${text}`)].join(
    "\n",
  );
}

function document(
  reports: readonly PartReport[],
  lost: readonly string[],
  { seed, mode, operations }: PartSettings,
): string {
  const about = { date: new Date().toISOString(), node: process.version, seed, mode, operations };
  return `${JSON.stringify({ ...about, lost, parts: reports }, null, 2)}\n`;
}

interface Options extends PartSettings {
  readonly only: readonly string[];
  readonly jobs: number;
  readonly json: string | undefined;
  readonly list: boolean;
  readonly help: boolean;
}

/** Returns the options, or what is wrong with them. */
function parse(): Options | string {
  try {
    const { values } = parseArgs({
      options: {
        only: { type: "string", multiple: true, default: [] },
        ops: { type: "string" },
        jobs: { type: "string", default: "1" },
        mode: { type: "string", default: "default" },
        seed: { type: "string", default: "1" },
        json: { type: "string" },
        list: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
    const { only, mode, json, list, help: wantsHelp } = values;
    const [jobs, seed] = [Number(values.jobs), Number(values.seed)];
    if (!(Number.isSafeInteger(jobs) && jobs >= 1 && jobs <= 64))
      return `--jobs is ${values.jobs}; allowed: 1 to 64`;
    if (!Number.isSafeInteger(seed)) return `--seed is ${values.seed}; allowed: whole numbers`;
    if (mode !== "quick" && mode !== "default") return `--mode is ${mode}; allowed: quick, default`;
    const unknown = only.find((text) => !parts.some(({ name }) => name.includes(text)));
    if (unknown !== undefined)
      return `--only ${unknown} is in no name; allowed: ${parts.map(({ name }) => name).join(", ")}`;
    const operations = values.ops?.split(",") as OperationName[] | undefined;
    const strange = operations?.find((name) => !operationNames.includes(name));
    if (strange !== undefined) return `--ops ${strange} is unknown; allowed: ${operationNames.join(", ")}`;
    return { only, operations, jobs, mode, seed, json, list, help: wantsHelp };
  } catch (error) {
    return (error as Error).message;
  }
}
