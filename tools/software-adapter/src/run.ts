import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { type SoftwareAdapter, softwareVulkan } from "./adapter.js";

export interface RunOptions {
  /** Default: SwiftShader. */
  readonly adapter?: SoftwareAdapter | undefined;
  readonly cwd?: string;
  /** Added to the environment of this process and of the software adapter. */
  readonly env?: Record<string, string>;
  /** Options for Node.js itself, before the entry. */
  readonly nodeArguments?: readonly string[];
}

/** Runs a Node.js entry on the software adapter and returns its exit code. */
export async function runWithSoftwareAdapter(
  entry: string,
  args: readonly string[] = [],
  options: RunOptions = {},
): Promise<number> {
  return runCommand(process.execPath, [...(options.nodeArguments ?? []), entry, ...args], options);
}

/** Runs any command on the software adapter and returns its exit code. */
export async function runCommand(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<number> {
  const { env } = await softwareVulkan(options.adapter);
  const child = spawn(command, args, {
    stdio: "inherit",
    cwd: options.cwd,
    env: { ...process.env, ...env, ...options.env },
  });
  return exitCode(child);
}

const FORWARDED: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"];

/** Forwards signals to the child until it ends; a death by signal counts as 128 + its number, as in a shell. */
async function exitCode(child: ChildProcess): Promise<number> {
  const forward = (signal: NodeJS.Signals): void => void child.kill(signal);
  for (const signal of FORWARDED) process.on(signal, forward);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code, signal) => resolve(code ?? 128 + constants.signals[signal!]));
    });
  } finally {
    for (const signal of FORWARDED) process.off(signal, forward);
  }
}
