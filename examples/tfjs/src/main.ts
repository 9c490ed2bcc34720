import { fileURLToPath } from "node:url";
import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { loadDigits } from "@backplane/example-digits/data.js";
import { tellSystemErrors } from "@backplane/example-digits/system-errors.js";
import { restartReason, restartWithSoftwareAdapter } from "@backplane/software-adapter";
import { register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { type Options, parseOptions, UsageError, usage } from "./options.js";
import { run, type Stage } from "./run.js";

const exitCodes = { done: 0, failed: 1, usage: 2 };

function stagesOf({ backend, steps, webgpuSteps }: Options): readonly Stage[] {
  if (backend === "cpu") return [{ backend, steps }];
  if (backend === "webgpu") return [{ backend, steps: webgpuSteps }];
  const first = Math.ceil(steps / 2);
  return [
    { backend: "cpu", steps: first },
    { backend: "webgpu", steps: webgpuSteps },
    { backend: "cpu", steps: Math.max(1, steps - first) },
  ];
}

/** Runs the program and returns its exit code. */
async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args);
  if (options.help) {
    process.stdout.write(usage);
    return exitCodes.done;
  }
  const listed = await webgpu().probe();
  if (options.backend !== "cpu" && !listed.available) {
    const restarted = await restartWithSoftwareAdapter(fileURLToPath(import.meta.url), args, listed.reason);
    if ("exitCode" in restarted) return restarted.exitCode;
    process.stderr.write(`No WebGPU here: ${listed.reason}; ${restarted.reason}. Try --backend cpu.\n`);
    return exitCodes.failed;
  }
  if (restartReason() !== undefined)
    process.stdout.write("There is no GPU here: WebGPU runs on a software adapter instead.\n");
  const registration = await register(tf, [cpu(), webgpu()]);
  const { training, test } = loadDigits();
  const { accuracy, stages } = await run(registration, stagesOf(options), training, test, process.stdout);
  for (const { backend, steps, seconds } of stages)
    process.stdout.write(`${backend.padEnd(7)} ${steps} steps in ${seconds.toFixed(1)} s\n`);
  process.stdout.write(`${(accuracy * 100).toFixed(1)}% of the test images are recognized.\n`);
  await registration.dispose();
  return exitCodes.done;
}

tellSystemErrors();
try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`${error.message}\n\n${usage}`);
  process.exitCode = exitCodes.usage;
}
