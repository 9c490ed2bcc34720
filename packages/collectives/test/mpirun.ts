import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { UnpackedMpi } from "@backplane/debian";

/** Against hangs only. */
const hangMilliseconds = 300_000;

export interface Job {
  readonly child: ChildProcess;
  readonly ended: Promise<{ readonly code: number | null; readonly output: string; readonly errors: string }>;
}

export interface JobOptions {
  /** Further options of the launcher. */
  readonly launcher?: readonly string[];
  /** What starts the program, on each rank. Default: Node.js. */
  readonly through?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Called with all of the output so far. */
  readonly onOutput?: (output: string) => void;
}

/** Starts a program of this folder on several ranks. */
export function mpirun(
  { command, options, environment }: UnpackedMpi,
  ranks: number,
  program: string,
  args: readonly string[] = [],
  { launcher = [], through = [], env = {}, onOutput }: JobOptions = {},
): Job {
  const path = fileURLToPath(new URL(`./programs/${program}.js`, import.meta.url));
  const line = [...options, ...launcher, "-n", String(ranks), ...through, process.execPath, path, ...args];
  const child = spawn(command, line, {
    env: { ...process.env, NODE_OPTIONS: "", ...environment, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  child.stdout.on("data", (text: Buffer) => {
    output += text.toString();
    onOutput?.(output);
  });
  child.stderr.on("data", (text: Buffer) => {
    errors += text.toString();
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), hangMilliseconds);
  const ended = new Promise<{ code: number | null; output: string; errors: string }>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      clearTimeout(timer);
      resolve({ code, output, errors });
    });
  });
  return { child, ended };
}
