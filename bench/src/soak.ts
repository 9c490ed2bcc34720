import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend, type WebGpuBackend } from "@backplane/backend-webgpu";
import { type MemorySample, mebibytes, type SoakReport, soak, type Tally } from "@backplane/conformance";
import type { ComputeBackend } from "@backplane/core";
import { checkWritable } from "@backplane/example-digits/disk.js";
import { tellSystemErrors } from "@backplane/example-digits/system-errors.js";
import { collectGarbage } from "./garbage.js";

const help = `Works a backend with random calls for a while: all operations and element types, random
sizes, frees, transfers and reads that overlap the work. Every result is compared with the
reference, and memory is watched: over the second half of the run, which repeats the calls
of the first, it may not rise.

  --backend NAME   cpu or webgpu (default: webgpu)
  --minutes N      how long (default: 10); may be a fraction
  --seed N         start of the random choices (default: 1)
  --threads N      worker threads of the cpu backend
  --json FILE      also write the report: calls, results, memory over time, verdict
  --help           this text

Interrupted (SIGINT), it stops, verifies what is under way and reports. Exit code: 0 passed,
1 a result was wrong or lost or memory rose, 2 bad usage.`;

/** Small, so that the pool is full before memory is judged. */
const poolBytes = 2 ** 24;

/** Bytes that backends keep besides live memory: pool, staging and parameters; the heap of WebAssembly. */
const keptBytes = { webgpu: poolBytes + 2 ** 25, cpu: 2 ** 26 };

tellSystemErrors();
process.exitCode = await main();

async function main(): Promise<number> {
  let options: ReturnType<typeof parse>;
  try {
    options = parse();
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${help}`);
    return 2;
  }
  if (options.help) {
    console.log(help);
    return 0;
  }
  if (options.json !== undefined) await checkWritable(options.json);
  const stop = new AbortController();
  const onInterrupt = () => stop.abort();
  process.once("SIGINT", onInterrupt);
  const backend: ComputeBackend =
    options.backend === "cpu"
      ? createCpuBackend(options.threads === undefined ? {} : { threads: options.threads })
      : createWebGpuBackend({ poolBytes });
  try {
    await backend.init();
    const { name } = backend.capabilities.device;
    console.log(`${options.backend}: ${name}; ${options.minutes} minutes, seed ${options.seed}`);
    const { minutes, seed } = options;
    const pipelines = options.backend === "webgpu" ? countPipelines(backend as WebGpuBackend) : undefined;
    const onSample = progress(pipelines);
    const report = await soak(backend, {
      minutes,
      seed,
      signal: stop.signal,
      processMemory,
      onSample,
      keptBytes: keptBytes[options.backend],
    });
    print(report, pipelines);
    if (options.json !== undefined) {
      const about = { date: new Date().toISOString(), node: process.version, pipelines: pipelines?.() };
      await writeFile(options.json, `${JSON.stringify({ ...about, ...report }, null, 2)}\n`);
    }
    return report.passed ? 0 : 1;
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    return 1;
  } finally {
    process.removeListener("SIGINT", onInterrupt);
    await backend.dispose();
  }
}

interface SoakArguments {
  readonly help: boolean;
  readonly backend: "cpu" | "webgpu";
  readonly minutes: number;
  readonly seed: number;
  readonly threads: number | undefined;
  readonly json: string | undefined;
}

/** Throws if an argument is not one of those in `help`. */
function parse(): SoakArguments {
  const { values } = parseArgs({
    options: {
      backend: { type: "string", default: "webgpu" },
      minutes: { type: "string", default: "10" },
      seed: { type: "string", default: "1" },
      threads: { type: "string" },
      json: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  const { backend, help, json } = values;
  if (backend !== "cpu" && backend !== "webgpu")
    throw new Error(`--backend is ${backend}; allowed: cpu, webgpu`);
  const minutes = Number(values.minutes);
  if (!(minutes > 0 && minutes < Number.POSITIVE_INFINITY))
    throw new Error(`--minutes is ${values.minutes}; allowed: numbers above 0`);
  const whole = (name: string, text: string): number => {
    const value = Number(text);
    if (text.trim() === "" || !Number.isSafeInteger(value) || value < 0)
      throw new Error(`--${name} is ${text}; allowed: whole numbers from 0`);
    return value;
  };
  const threads = values.threads === undefined ? undefined : whole("threads", values.threads);
  return { help, backend, minutes, seed: whole("seed", values.seed), threads, json };
}

/** Garbage is no leak: it is collected before memory is read. */
function processMemory(): Pick<MemorySample, "residentBytes" | "heapBytes" | "externalBytes"> {
  collectGarbage();
  const { rss, heapUsed, external } = process.memoryUsage();
  return { residentBytes: rss, heapBytes: heapUsed, externalBytes: external };
}

/** Pipelines keep their code in this process until the device is closed: how many the device has made so far. */
function countPipelines(backend: WebGpuBackend): () => number {
  let count = 0;
  const device = backend.native() as Record<string, (descriptor: unknown) => unknown>;
  for (const name of ["createComputePipeline", "createComputePipelineAsync"]) {
    const create = device[name]!;
    device[name] = (descriptor) => {
      count++;
      return create.call(device, descriptor);
    };
  }
  return () => count;
}

/** Prints a line for each minute that has begun to run. */
function progress(pipelines?: () => number): (sample: MemorySample, tally: Readonly<Tally>) => void {
  let minute = -1;
  return (sample, tally) => {
    if (Math.floor(sample.seconds / 60) === minute) return;
    minute = Math.floor(sample.seconds / 60);
    console.log(line(sample, tally, pipelines));
  };
}

function line(sample: MemorySample, tally: Readonly<Tally>, pipelines?: () => number): string {
  const calls = Object.values(tally.calls).reduce((sum, count) => sum + count, 0);
  return [
    `${(sample.seconds / 60).toFixed(1).padStart(5)} min`,
    `${calls} calls`,
    `${tally.results} results checked`,
    `${tally.wrong} wrong`,
    `live ${mebibytes(sample.liveBytes)}`,
    `reserved ${mebibytes(sample.reservedBytes)}`,
    `rss ${mebibytes(sample.residentBytes ?? 0)}`,
    `heap ${mebibytes(sample.heapBytes ?? 0)}`,
    `external ${mebibytes(sample.externalBytes ?? 0)}`,
    ...(pipelines === undefined ? [] : [`${pipelines()} pipelines`]),
  ].join(", ");
}

function print(
  { tally, samples, trends, passed, reasons, seconds, seed }: SoakReport,
  pipelines?: () => number,
): void {
  const last = samples.at(-1);
  if (last !== undefined) console.log(line(last, tally, pipelines));
  for (const [call, count] of Object.entries(tally.calls).sort(([a], [b]) => (a < b ? -1 : 1)))
    console.log(`  ${call.padEnd(12)} ${String(count).padStart(9)}`);
  console.log(
    `  up ${mebibytes(tally.uploadedBytes)}, down ${mebibytes(tally.downloadedBytes)}; ` +
      `${tally.results} results and ${tally.elements} elements checked, ${tally.wrong} wrong, ` +
      `${tally.skipped} results not checked (inputs below the smallest normal number)`,
  );
  for (const complaint of tally.complaints) console.log(`  wrong: ${complaint}`);
  for (const { gauge, flat, rise, allowed, mean } of trends)
    console.log(
      `  ${gauge}: ${mebibytes(mean)} in the second half, ${flat ? "flat" : "rising"} ` +
        `(${mebibytes(rise)} of ${mebibytes(allowed)} allowed)`,
    );
  if (trends.length === 0) console.log("  too short to say anything of memory");
  console.log(
    passed
      ? `passed after ${(seconds / 60).toFixed(1)} minutes, seed ${seed}`
      : `FAILED: ${reasons.join("; ")}`,
  );
}
