import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Tag, tagsOf } from "./tags.js";

export const workspaceRoot: string = fileURLToPath(new URL("../../..", import.meta.url));

export interface WorkspacePackage {
  /** Relative to the root of the workspace, with forward slashes: "packages/core". */
  readonly path: string;
  readonly manifest: Manifest;
}

export interface Manifest {
  readonly name: string;
  readonly exports?: Exports;
  readonly imports?: Readonly<Record<string, unknown>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

export type Exports = string | { readonly [key: string]: Exports };

/** Every package of the workspace, in the order in which they are tested. */
export function workspacePackages(): WorkspacePackage[] {
  const paths = [...within("tools"), ...within("packages"), ...within("examples"), "bench"];
  return paths
    .filter((path) => existsSync(join(workspaceRoot, path, "package.json")))
    .map((path) => ({ path, manifest: readManifest(path) }));
}

/** Returns the manifest of a package. Its exports name each file that a pattern stands for, once they are compiled. */
function readManifest(path: string): Manifest {
  const folder = join(workspaceRoot, path);
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
  const { exports } = manifest;
  return typeof exports !== "object" ? manifest : { ...manifest, exports: withoutPatterns(folder, exports) };
}

/** Replaces entries such as `"./kernels/*": { default: "./dist/kernels/*\/public.js" }` by those that exist. */
function withoutPatterns(folder: string, exports: { readonly [key: string]: Exports }): Exports {
  const entries = Object.entries(exports).flatMap(([subpath, entry]): readonly [string, Exports][] => {
    if (!subpath.includes("*")) return [[subpath, entry]];
    const [before, after] = firstTarget(entry).split("*") as [string, string];
    const parent = join(folder, before);
    const names = existsSync(parent) ? readdirSync(parent).sort() : [];
    return names
      .filter((name) => existsSync(join(parent, `${name}${after}`)))
      .map((name) => [subpath.replace("*", name), filledIn(entry, name)]);
  });
  return Object.fromEntries(entries);
}

function firstTarget(entry: Exports): string {
  return typeof entry === "string" ? entry : firstTarget(Object.values(entry)[0]!);
}

function filledIn(entry: Exports, name: string): Exports {
  if (typeof entry === "string") return entry.replaceAll("*", name);
  return Object.fromEntries(Object.entries(entry).map(([key, inner]) => [key, filledIn(inner, name)]));
}

/** A file of tests, or an entry of the browser part. */
export interface TestFile {
  /** The place of its compiled form: an absolute path, or that of an entry below the page's server. */
  readonly compiled: string;
  readonly tags: readonly Tag[];
}

/** Node.js tests of a package: one for each test/**\/NAME.test.ts outside test/browser. */
export function nodeTests(path: string): TestFile[] {
  return sources(join(path, "test"))
    .filter((file) => file.endsWith(".test.ts") && !file.startsWith("browser/"))
    .map((file) => ({
      compiled: join(workspaceRoot, path, "dist-test", file.replace(/\.ts$/, ".js")),
      tags: readTags(join(path, "test", file)),
    }));
}

/** Returns the browser entries of a package: one for each file directly in test/browser. */
export function browserEntries(path: string): TestFile[] {
  return sources(join(path, "test", "browser"))
    .filter((file) => file.endsWith(".ts") && !file.endsWith(".d.ts") && !file.includes("/"))
    .map((file) => ({
      compiled: `/${path}/dist-test/browser/${file.replace(/\.ts$/, ".js")}`,
      tags: readTags(join(path, "test", "browser", file)),
    }));
}

function readTags(path: string): readonly Tag[] {
  return tagsOf(readFileSync(join(workspaceRoot, path), "utf8"), path);
}

/**
 * Tests are listed from their sources, not from the compiled files, because the compiled file of a
 * deleted test stays behind.
 */
function sources(path: string): string[] {
  const folder = join(workspaceRoot, path);
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((file) => file.replaceAll("\\", "/"))
    .sort();
}

function within(group: string): string[] {
  const folder = join(workspaceRoot, group);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .sort()
    .map((name) => `${group}/${name}`);
}
