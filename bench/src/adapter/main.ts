import { fork } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { tellSystemErrors } from "@backplane/example-digits/system-errors.js";
import { help, parseOptions } from "./options.js";
import { type PartReport, type PartSettings, parts, runPart } from "./parts.js";

/** The parent's request to a process. */
interface Request extends PartSettings {
  readonly part: string;
}

tellSystemErrors();
if (process.send === undefined) process.exitCode = await main();
else
  process.once("message", async ({ part, ...settings }: Request) => {
    const report = await runPart(parts.find(({ name }) => name === part)!, settings);
    process.send!(report, () => process.disconnect());
  });

async function main(): Promise<number> {
  const options = parseOptions(process.argv.slice(2));
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
    `${chosen.length} parts, ${possible} possible on ${reports[0]?.device ?? "this machine"}; ${bad + lost.length} failed`,
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
