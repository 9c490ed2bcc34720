import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import type { RunResult } from "#src/result.js";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));
export interface Ending {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the program to its end, which it must come to by itself. */
export function digits(
  line: string,
  options: { readonly env?: Record<string, string>; readonly stopAt?: string } = {},
): Promise<Ending> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [main, ...line.split(" ")], {
      env: { ...process.env, ...options.env },
    });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (text) => {
      stdout += text;
    });
    child.stderr.on("data", (text) => {
      stderr += text;
      if (options.stopAt !== undefined && !child.killed && stderr.includes(options.stopAt))
        child.kill("SIGINT");
    });
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}

export function resultOf(ending: Ending): RunResult {
  expect(ending.code, ending.stderr).to.equal(0);
  return JSON.parse(ending.stdout) as RunResult;
}
