import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { arch, cpus, platform } from "node:os";
import type { DeviceDescription } from "@backplane/core";
import { checkWritable } from "@backplane/example-digits/disk.js";
import { tellSystemErrors } from "@backplane/example-digits/system-errors.js";
import { Anchor } from "./anchor.js";
import type { Case } from "./cases/case.js";
import { sweeps, tables } from "./cases/tables.js";
import type { Configuration } from "./configurations.js";
import { openCopy, type Pace } from "./contender.js";
import { line } from "./lines.js";
import { measureCase, type Subject, takes } from "./measure.js";
import { help, type Options, parseOptions } from "./options.js";
import type { Missing, Peak, Report, Row } from "./result.js";
import { quantile } from "./statistics.js";

/** By the names that WebGPU reports: 132 multiprocessors, 128 multiply-adds each, 1.98 GHz. */
const knownPeaks: Readonly<Record<string, Peak>> = { "nvidia-h200": { f32: 67e12, f16: 989e12 } };

/** After the first of these, the case under way is finished and the measurements so far are written. */
const stopSignals = ["SIGINT", "SIGTERM"] as const;

tellSystemErrors();
process.exitCode = await main();

async function main(): Promise<number> {
  let options: Options;
  try {
    options = parseOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${help}`);
    return 2;
  }
  if (options.help) {
    console.log(help);
    return 0;
  }
  const cases = chosenCases(options);
  if (options.list || cases.length === 0) {
    for (const { name } of cases) console.log(name);
    if (cases.length === 0) console.error(`no case's name contains ${options.only.join(" or ")}`);
    return cases.length === 0 ? 2 : 0;
  }
  if (options.json !== undefined) await checkWritable(options.json);
  return run(options, cases);
}

function chosenCases({ size, sweep, table, only }: Options): readonly Case[] {
  const all = [...(table ? tables[size] : []), ...(sweep ? sweeps[size] : [])];
  return only.length === 0 ? all : all.filter(({ name }) => only.some((text) => name.includes(text)));
}

async function run(options: Options, cases: readonly Case[]): Promise<number> {
  const pace: Pace = { sample: options.milliseconds / 1000, warmUp: options.milliseconds / 4000 };
  const log: string[] = [];
  const missing: Missing[] = [];
  const rows: Row[] = [];
  const subjects: Subject[] = [];
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  for (const signal of stopSignals) process.once(signal, onSignal);
  let anchor: Anchor | undefined;
  let about: Report["anchor"];
  try {
    for (const configuration of options.configurations) {
      try {
        subjects.push(await open(configuration, pace, log));
      } catch (error) {
        const reason = (error as Error).message;
        console.log(`${configuration.name}: not available here: ${reason}`);
        missing.push({ case: "all", configuration: configuration.name, reason, failed: true });
      }
    }
    if (options.anchor !== undefined)
      try {
        ({ anchor, about } = await Anchor.start(options.anchor));
        console.log(`anchor: ${JSON.stringify(about)}`);
      } catch (error) {
        console.log(`anchor: ${(error as Error).message}`);
        about = { error: (error as Error).message };
      }
    const peak = peakOf(options, subjects);
    const conditions = {
      pace,
      rounds: options.rounds,
      ...(anchor === undefined ? {} : { anchor }),
      ...(peak === undefined ? {} : { peak }),
    };
    for (const test of cases) {
      if (stop.signal.aborted) break;
      const takers = subjects.filter((subject) => takes(subject, test));
      if (takers.length === 0) continue;
      console.log(test.name);
      const result = await measureCase(test, takers, conditions);
      rows.push(...result.rows);
      missing.push(...result.missing);
      for (const row of result.rows) console.log(line(row));
      for (const { configuration, reason, failed } of result.missing)
        console.log(`  ${configuration.padEnd(18)} ${failed ? "FAILED" : "not compared"}: ${reason}`);
    }
    const byName = <Value>(value: (subject: Subject) => Value) =>
      Object.fromEntries(subjects.map((subject) => [subject.name, value(subject)]));
    const report: Report = {
      date: new Date().toISOString(),
      versions: { node: process.version, ...dawnVersion() },
      machine: `${platform()} ${arch()}, ${cpus().length} x ${cpus()[0]?.model ?? "unknown"}`,
      command: process.argv.slice(2),
      devices: byName<DeviceDescription>(({ backend }) => backend.capabilities.device),
      ...(about === undefined ? {} : { anchor: about }),
      copyBandwidth: byName(({ copyBandwidth }) => copyBandwidth),
      ...(peak === undefined ? {} : { peak }),
      rounds: options.rounds,
      sampleMilliseconds: options.milliseconds,
      rows,
      missing,
      log,
    };
    if (options.json !== undefined) await writeFile(options.json, `${JSON.stringify(report, null, 1)}\n`);
    return missing.some(({ failed }) => failed) ? 1 : 0;
  } finally {
    for (const signal of stopSignals) process.removeListener(signal, onSignal);
    await anchor?.stop();
    for (const { backend } of subjects) await backend.dispose();
  }
}

async function open(configuration: Configuration, pace: Pace, log: string[]): Promise<Subject> {
  const { name, only } = configuration;
  const backend = configuration.create((text) => log.push(`${name}: ${text}`));
  const { device } = await backend.init().then(
    () => backend.capabilities,
    async (error: unknown) => {
      await backend.dispose();
      throw error;
    },
  );
  const { tier = "", blas = "", blasUnavailable } = device.details;
  if (blasUnavailable !== undefined) {
    await backend.dispose();
    throw new Error(blasUnavailable);
  }
  const copy = openCopy(backend);
  const samples: number[] = [];
  for (let i = 0; i < 3; i++) samples.push(await copy.sample(pace));
  await copy.close();
  const copyBandwidth = copy.bytes / quantile(samples, 0.5);
  const told = [device.name, tier, blas].filter((text) => text !== "").join(", ");
  console.log(`${name}: ${told}; copies ${(copyBandwidth / 1e9).toFixed(1)} GB/s`);
  return { name, backend, copyBandwidth, matrices: tier.startsWith("subgroup-matrices"), only };
}

function peakOf({ peakF32, peakF16 }: Options, subjects: readonly Subject[]): Peak | undefined {
  if (peakF32 !== undefined) return { f32: peakF32 * 1e12, f16: (peakF16 ?? peakF32) * 1e12 };
  const known = subjects.map(({ backend }) => knownPeaks[backend.capabilities.device.name]);
  return known.find((peak) => peak !== undefined);
}

/** Returns the version of the npm package that brings Dawn; nothing if it is not found. */
function dawnVersion(): Readonly<Record<string, string>> {
  // A bundle of this program has the package beside it; otherwise it is the backend's.
  const places = [() => import.meta.url, () => import.meta.resolve("@backplane/backend-webgpu")];
  for (const place of places)
    try {
      const path = createRequire(place()).resolve("webgpu/package.json");
      const { version } = JSON.parse(readFileSync(path, "utf8")) as { version: string };
      return { webgpu: version };
    } catch {
      // The next place.
    }
  return {};
}
