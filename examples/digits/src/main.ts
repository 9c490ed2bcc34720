import { fileURLToPath } from "node:url";
import { type Communicator, openCommunicator } from "@backplane/collectives";
import { restartReason, restartWithSoftwareAdapter } from "@backplane/software-adapter";
import { registryFor } from "./backends.js";
import { loadDigits } from "./data.js";
import { checkWritable } from "./disk.js";
import { FileError } from "./file-error.js";
import { type Options, parseOptions, UsageError, usage } from "./options.js";
import type { Output } from "./progress.js";
import { listBackends, plainReason, summarise } from "./report.js";
import { run } from "./run.js";
import { tellSystemErrors } from "./system-errors.js";

const exitCodes = { done: 0, failed: 1, usage: 2, interrupted: 130 };

/** Runs the program and returns its exit code. */
async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args);
  if (options.help) {
    process.stdout.write(usage);
    return exitCodes.done;
  }
  const interruption = new AbortController();
  // More than one signal may come: a terminal signals the whole group, and a parent passes it on.
  const interrupt = (): void => interruption.abort();
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", interrupt);
  try {
    await using communicator = await openCommunicator();
    return await start(options, args, communicator, interruption.signal);
  } catch (error) {
    if (!interruption.signal.aborted) throw error;
    process.stderr.write("\nStopped; the backend was closed.\n");
    return exitCodes.interrupted;
  }
}

async function start(
  options: Options,
  args: readonly string[],
  communicator: Communicator,
  signal: AbortSignal,
): Promise<number> {
  const { rank, size } = communicator;
  if (size > 1 && options.backend === "swap")
    throw new UsageError('--backend is "swap"; allowed with several processes: cpu, webgpu');
  // Before anything is trained that could not be saved. Only the first process writes.
  if (rank === 0)
    for (const path of [options.save, options.svg]) if (path !== undefined) await checkWritable(path);
  const output = rank > 0 ? silence : options.json ? process.stderr : process.stdout;
  const registry = registryFor(options);
  const backends = await registry.list();
  const webgpu = backends.find((listing) => listing.name === "webgpu");
  let mode = options.backend;
  let note = restartNote();
  if (mode !== "cpu" && webgpu?.available === false) {
    const reason = plainReason(webgpu.reason);
    // A program that MPI has started cannot be started again by itself.
    if (communicator.engine !== "none") {
      process.stderr.write(`No WebGPU here: ${reason}.\n`);
      return exitCodes.failed;
    }
    const restarted = await restartWithSoftwareAdapter(fileURLToPath(import.meta.url), args, reason);
    if ("exitCode" in restarted) return restarted.exitCode;
    if (mode === "webgpu") {
      process.stderr.write(`No WebGPU here: ${reason}; ${restarted.reason}.\n`);
      return exitCodes.failed;
    }
    note = `No WebGPU here, and ${restarted.reason}: everything runs on the CPU.`;
    mode = "cpu";
  }
  output.write(`${listBackends(backends)}\n${note === undefined ? "" : `${note}\n`}\n`);
  const { training, test } = loadDigits();
  const result = await run({
    ...{
      options: { ...options, backend: mode },
      registry,
      backends,
      training,
      test,
      communicator,
      output,
      signal,
    },
  });
  output.write(`${summarise(result)}\n`);
  if (options.json && rank === 0) process.stdout.write(`${JSON.stringify(result)}\n`);
  return exitCodes.done;
}

/** What is shown by all processes but the first. */
const silence: Output = { write: () => true };

function restartNote(): string | undefined {
  const noGpu = restartReason();
  if (noGpu === undefined) return undefined;
  return `There is no GPU here: ${noGpu}. WebGPU runs on a software adapter instead.`;
}

tellSystemErrors();
try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (error instanceof UsageError) {
    process.stderr.write(`${error.message}\n\n${usage}`);
    process.exitCode = exitCodes.usage;
  } else if (error instanceof FileError) {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = exitCodes.failed;
  } else throw error;
}
