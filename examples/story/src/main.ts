import { fileURLToPath } from "node:url";
import { BackendError } from "@backplane/core";
import { tellSystemErrors } from "@backplane/example-digits/system-errors.js";
import { chooseBackend } from "./backends.js";
import { FileError } from "./checkpoint/file.js";
import { UsageError } from "./command-line.js";
import { parseOptions, usage } from "./options.js";
import { tellStory } from "./story.js";
import { trainAdapter } from "./training/lora-program.js";
import { trainModel } from "./training/program.js";

const exitCodes = { done: 0, failed: 1, usage: 2, interrupted: 130 };

/** Runs the program and returns its exit code. */
async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args);
  if (options.help) {
    process.stdout.write(usage);
    return exitCodes.done;
  }
  const { model, task } = options;
  const trains = task === "model";
  const needsBoth = options.swap > 0 || trains;
  const start = await chooseBackend(options.backend, needsBoth, fileURLToPath(import.meta.url), args);
  if ("exitCode" in start) return start.exitCode;
  const { backend, missing } = start;
  if (missing !== undefined) {
    const works = trains && backend === "cpu";
    process.stderr.write(`${missing} ${works ? "Everything runs on the CPU." : "Try --backend cpu."}\n`);
    if (!works) return exitCodes.failed;
  }
  const interruption = new AbortController();
  const interrupt = (): void => interruption.abort();
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", interrupt);
  const outputs = { text: process.stdout, notes: process.stderr };
  try {
    const { signal } = interruption;
    if (model === undefined)
      await trainModel({ options, start: backend, swaps: missing === undefined, outputs, signal });
    else if (task === "adapter") await trainAdapter({ ...options, model }, backend, outputs, signal);
    else await tellStory({ ...options, model }, backend, outputs, signal);
  } catch (error) {
    if (!interruption.signal.aborted) throw error;
  }
  return interruption.signal.aborted ? exitCodes.interrupted : exitCodes.done;
}

/** The device cannot do something that was asked for: it cannot be measured, say, or has too little memory. */
function isBeyondDevice(error: unknown): error is BackendError {
  return error instanceof BackendError && ["UNSUPPORTED", "OUT_OF_MEMORY"].includes(error.code);
}

tellSystemErrors();
try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (error instanceof UsageError) {
    process.stderr.write(`${error.message}\n\n${usage}`);
    process.exitCode = exitCodes.usage;
  } else if (error instanceof FileError || isBeyondDevice(error)) {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = exitCodes.failed;
  } else throw error;
}
