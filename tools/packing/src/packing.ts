import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root: string = fileURLToPath(new URL("../../..", import.meta.url));

export interface Manifest {
  readonly name: string;
  readonly bin?: string | Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

interface Packed {
  readonly name: string;
  readonly content: Uint8Array;
}

/** What this process has packed, by the path of the package. */
const packages = new Map<string, Packed>();

/** Packs a package of the workspace as it would be published, once in a process. Returns the path of the file. */
export function pack(path: string, destination: string): string {
  const packed = packages.get(path) ?? packedBy(path);
  packages.set(path, packed);
  const file = join(destination, packed.name);
  writeFileSync(file, packed.content);
  return file;
}

function packedBy(path: string): Packed {
  const folder = mkdtempSync(join(tmpdir(), "backplane-packed-"));
  try {
    run(pnpm(), ["pack", "--pack-destination", folder], join(root, path));
    const [name, ...others] = readdirSync(folder);
    if (name === undefined || others.length > 0) throw new Error(`pnpm pack left ${others.length} files`);
    return { name, content: readFileSync(join(folder, name)) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * How to start pnpm: npm would leave the workspace's own version ranges in the manifest. Under
 * `pnpm test` it is the one that runs there, which may be a script or a program.
 */
function pnpm(): readonly string[] {
  const current = process.env.npm_execpath;
  if (current === undefined || !current.includes("pnpm")) return ["npx", "-y", "pnpm@12"];
  return /\.[cm]?js$/.test(current) ? [process.execPath, current] : [current];
}

/** Makes a package of an empty folder and installs files there, without running any script of theirs. */
export function install(folder: string, tarballs: readonly string[]): void {
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
  run(["npm"], ["install", ...quiet, ...tarballs], folder);
}

/** The manifest of an installed package. */
export function manifestOf(folder: string, name: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "node_modules", name, "package.json"), "utf8")) as Manifest;
}

/** A program that has not ended after this long is killed. This only guards against hangs. */
const hangMilliseconds = 900_000;

/** Runs a program to its end. Returns its output, or throws it if the program failed. */
export function run([program, ...first]: readonly string[], rest: readonly string[], folder: string): string {
  const { status, stdout, stderr, error } = spawnSync(program!, [...first, ...rest], {
    cwd: folder,
    // Nothing of the workspace may help, except the address of the registry.
    env: { ...process.env, NODE_PATH: "", NODE_OPTIONS: "" },
    encoding: "utf8",
    timeout: hangMilliseconds,
  });
  if (status !== 0) throw new Error(`${program} ${rest.join(" ")}: ${error ?? ""}\n${stdout}\n${stderr}`);
  return stdout;
}
