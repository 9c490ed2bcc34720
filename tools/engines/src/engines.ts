import { spawn } from "node:child_process";
import { join } from "node:path";
import { cachedFolder } from "@backplane/software-adapter";

/** An engine other than Node, to run programs with. */
export interface Engine {
  readonly name: string;
  readonly version: string;
  /** The words before the path of a program. */
  readonly command: readonly string[];
}

interface Source {
  readonly version: string;
  /** The package that has the executable, by Node's names of platform and processor. */
  readonly packages: Readonly<Record<string, string>>;
  /** The path of the executable in that package. */
  readonly executable: string;
  /** The words that make it run a program. */
  readonly options: readonly string[];
}

export type EngineName = "deno" | "bun";

const sources: Readonly<Record<EngineName, Source>> = {
  deno: {
    version: "2.9.6",
    packages: {
      "linux-x64": "@deno/linux-x64-glibc",
      "linux-arm64": "@deno/linux-arm64-glibc",
      "darwin-x64": "@deno/darwin-x64",
      "darwin-arm64": "@deno/darwin-arm64",
    },
    executable: "deno",
    // Packages are those that pnpm has linked; nothing is fetched, and nothing written beside them.
    options: ["run", "--no-prompt", "--allow-read", "--no-config", "--no-lock", "--node-modules-dir=manual"],
  },
  bun: {
    version: "1.4.5",
    packages: {
      "linux-x64": "@oven/bun-linux-x64",
      "linux-arm64": "@oven/bun-linux-aarch64",
      "darwin-x64": "@oven/bun-darwin-x64",
      "darwin-arm64": "@oven/bun-darwin-aarch64",
    },
    executable: "bin/bun",
    options: ["run", "--no-install"],
  },
};

export const engineNames: readonly EngineName[] = ["deno", "bun"];

/**
 * Fetches an engine from the package registry, the first time, into node_modules/.cache. The packages hold an
 * executable and nothing to install: none of their scripts runs. Rejects if there is no engine for this machine.
 */
export async function fetchEngine(name: EngineName): Promise<Engine> {
  const source = sources[name];
  const { version, executable, options } = source;
  const platform = `${process.platform}-${process.arch}`;
  const packageName = source.packages[platform];
  if (packageName === undefined)
    throw new Error(
      `${name} is not known for ${platform}; known: ${Object.keys(source.packages).join(", ")}`,
    );
  const folder = await cachedFolder(`${name}-${version}-${platform}`, async (temporary) => {
    const quiet = ["--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"];
    const { code, output } = await run(["npm", "install"], {
      parameters: [...quiet, "--prefix", temporary, `${packageName}@${version}`],
    });
    if (code !== 0) throw new Error(`${packageName} ${version} could not be fetched: ${output}`);
  });
  return { name, version, command: [join(folder, "node_modules", packageName, executable), ...options] };
}

export interface Ended {
  /** Null if the program had to be killed. */
  readonly code: number | null;
  /** All that it printed. */
  readonly output: string;
}

export interface RunOptions {
  readonly parameters: readonly string[];
  /** Then it is killed. Default: 15 minutes, against hangs only. */
  readonly limitMilliseconds?: number;
}

const hangMilliseconds = 900_000;

/** Runs a program to its end. */
export function run(command: readonly string[], options: RunOptions): Promise<Ended> {
  const [executable, ...first] = command;
  const child = spawn(executable!, [...first, ...options.parameters], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  const timer = setTimeout(() => child.kill("SIGKILL"), options.limitMilliseconds ?? hangMilliseconds);
  return new Promise((resolve, reject) => {
    child.on("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.on("close", (code) => {
      clearTimeout(timer);
      resolve({ code, output });
    });
  });
}
