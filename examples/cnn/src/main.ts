import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry } from "@backplane/core";
import { tellSystemErrors } from "@backplane/example-digits/system-errors.js";
import { restartReason, restartWithSoftwareAdapter } from "@backplane/software-adapter";
import { FileError, readModel } from "./files.js";
import { readPictures } from "./images.js";
import { side } from "./network.js";
import { type Mode, parseOptions, UsageError, usage } from "./options.js";
import { classify, type Result, type Route } from "./run.js";

const exitCodes = { done: 0, failed: 1, usage: 2 };

/** The largest difference from the logits of the file that rounding explains. */
const LARGEST_DIFFERENCE = 1e-4;

const routes: Readonly<Record<Mode, readonly Route[]>> = {
  cpu: [["cpu", "cpu"]],
  webgpu: [["webgpu", "webgpu"]],
  swap: [["cpu", "webgpu"]],
  all: [
    ["cpu", "cpu"],
    ["webgpu", "webgpu"],
    ["cpu", "webgpu"],
  ],
};

/** Runs the program and returns its exit code. */
async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args);
  if (options.help) {
    process.stdout.write(usage);
    return exitCodes.done;
  }
  const model = readFile(options.model, readModel);
  const pictures = readFile(options.pictures, (bytes) =>
    readPictures(new TextDecoder().decode(bytes), side * side),
  );
  const registry = new BackendRegistry([webgpu(), cpu()]);
  const listed = (await registry.list()).find(({ name }) => name === "webgpu")!;
  if (options.backend !== "cpu" && !listed.available) {
    const restarted = await restartWithSoftwareAdapter(fileURLToPath(import.meta.url), args, listed.reason);
    if ("exitCode" in restarted) return restarted.exitCode;
    process.stderr.write(`No WebGPU here: ${listed.reason}; ${restarted.reason}. Try --backend cpu.\n`);
    return exitCodes.failed;
  }
  if (restartReason() !== undefined)
    process.stderr.write("There is no GPU here: WebGPU runs on a software adapter instead.\n");
  let isRight = true;
  for (const route of routes[options.backend]) {
    const result = await classify(registry, route, model, pictures);
    isRight &&= result.difference === undefined || result.difference <= LARGEST_DIFFERENCE;
    process.stdout.write(`${describe(result, pictures)}\n`);
  }
  if (!isRight) process.stderr.write(`Logits differ by more than ${LARGEST_DIFFERENCE}.\n`);
  return isRight ? exitCodes.done : exitCodes.failed;
}

function readFile<Content>(path: string, read: (bytes: Uint8Array) => Content): Content {
  try {
    return read(readFileSync(path));
  } catch (error) {
    throw new FileError(`${path}: ${(error as Error).message}`);
  }
}

function describe({ route, digits, difference }: Result, pictures: readonly { name: string }[]): string {
  const [first, then] = route;
  const where = first === then ? first : `${first} to ${then}`;
  const found = pictures.map(({ name }, i) => `${name} is ${digits[i]}`).join(", ");
  const compared = difference === undefined ? "" : `; largest difference ${difference.toExponential(1)}`;
  return `${where.padEnd(13)} ${found}${compared}`;
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
