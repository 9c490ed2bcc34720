import { extname } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { bundleFiles, type PageSources } from "./bundle.js";
import { startServer } from "./server.js";

export interface PageProgram extends PageSources {
  /** The command that starts it, such as `npx -y pnpm@12 story-page`. */
  readonly command: string;
  /** One line on what the page does. */
  readonly purpose: string;
}

const DEFAULT_PORT = 8080;

/** The longest that a signal takes from one process of a terminal to the next, on a busy machine. */
const SIGNAL_MS = 500;

const exitCodes = { done: 0, failed: 1, usage: 2 };

/** Serves a page until Ctrl-C, and sets the exit code of the process. */
export async function runPageProgram(program: PageProgram, args: readonly string[]): Promise<void> {
  const options = parse(args);
  if (typeof options === "string") {
    process.stderr.write(`${options}\n\n${usageOf(program)}`);
    process.exitCode = exitCodes.usage;
  } else if (options.help) {
    process.stdout.write(usageOf(program));
  } else {
    process.exitCode = await serveUntilInterrupted(program, options.port);
  }
}

function usageOf({ command, purpose }: PageProgram): string {
  return `${purpose}

  ${command} [options]

  --port N   where to serve it on this machine; 0: any free port (default ${DEFAULT_PORT})
  --help     this text
`;
}

/** Returns the options, or what is wrong with them. */
function parse(args: readonly string[]): { readonly port: number; readonly help: boolean } | string {
  try {
    const { port, help } = parseArgs({
      // "pnpm NAME -- --help" hands on the separator too.
      args: args[0] === "--" ? args.slice(1) : [...args],
      options: {
        port: { type: "string", default: String(DEFAULT_PORT) },
        help: { type: "boolean", short: "h", default: false },
      },
    }).values;
    if (/^\d{1,5}$/.test(port) && Number(port) < 2 ** 16) return { port: Number(port), help };
    return `--port is "${port}"; allowed: whole numbers from 0 to ${2 ** 16 - 1}`;
  } catch (error) {
    // The first sentence says what is wrong; the rest is advice on options that take file names.
    return (error as Error).message.split(". ")[0]!;
  }
}

async function serveUntilInterrupted(program: PageProgram, port: number): Promise<number> {
  const interruption = new AbortController();
  const { signal } = interruption;
  const interrupted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
  for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => interruption.abort());
  // Once the bundler's process has ended, nothing else would keep this one until it knows so.
  const awake = setInterval(() => {}, 1000);
  try {
    const files = await bundleFiles(program);
    const contentOf = ({ pathname }: URL) => {
      const path = pathname === "/" ? "/index.html" : pathname;
      const body = files.get(path);
      if (body === undefined) throw new Error(`There is no ${path} here.`);
      return { extension: extname(path), body };
    };
    const server = await startServer(contentOf, port);
    if (!signal.aborted) process.stdout.write(`Open ${server.origin}/ in a browser. Ctrl-C ends.\n`);
    await interrupted;
    await server.close();
    return exitCodes.done;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") {
      process.stderr.write(`Port ${port} is taken. Name another one with --port N; 0 takes any.\n`);
      return exitCodes.failed;
    }
    // Ctrl-C ends the process of the bundler too, maybe before the signal is known here.
    await Promise.race([interrupted, setTimeout(SIGNAL_MS)]);
    if (signal.aborted) return exitCodes.done;
    throw error;
  } finally {
    clearInterval(awake);
  }
}
