import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { main } from "#src/cli/main.js";

const program = fileURLToPath(import.meta.resolve("#src/cli.js"));

/** The path of a module of `programs/backends`. */
export function backendModule(name: string): string {
  return fileURLToPath(new URL(`../programs/backends/${name}.js`, import.meta.url));
}

export interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

/** Runs the command line program in a process of its own; `watch` sees what it has written so far, and may stop reading. */
export function command(
  args: readonly string[],
  watch: (output: string, kill: (signal: NodeJS.Signals) => void, close: () => void) => void = () => {},
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let errors = "";
    child.stdout.on("data", (data: Buffer) => {
      output += data.toString();
      watch(
        output,
        (signal) => child.kill(signal),
        () => child.stdout.destroy(),
      );
    });
    child.stderr.on("data", (data: Buffer) => {
      errors += data.toString();
    });
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, output, errors }));
  });
}

/** Runs all of the command line program but its process, which would take most of a second to start. */
export async function called(args: readonly string[]): Promise<Ended> {
  const texts = { output: "", errors: "" };
  const screen = (name: keyof typeof texts) => ({
    write: (text: string) => {
      texts[name] += text;
      return true;
    },
  });
  const { signal } = new AbortController();
  const code = await main(args, { output: screen("output"), errors: screen("errors"), signal });
  return { code, ...texts };
}
