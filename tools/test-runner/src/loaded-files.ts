import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Exports, type WorkspacePackage, workspacePackages, workspaceRoot } from "./workspace.js";

/** Static and dynamic imports, and files named relative to their module, such as those of workers and programs. */
const references =
  /(?:\bfrom|\bimport)\s*\(?\s*"([^"\n]+)"|new URL\(\s*"(\.[^"\n]+)",\s*import\.meta\.url\s*\)/g;

/** Returns what a compiled module loads, by the names that it uses. Comments may add names. */
export function namesLoaded(source: string): readonly string[] {
  return [...new Set([...source.matchAll(references)].map(([, imported, file]) => (imported ?? file)!))];
}

/** What each module names, as absolute paths: most are loaded by many files of tests, and none changes during a run. */
const named = new Map<string, readonly string[]>();

/**
 * Returns the files of the workspace that a module can load, start or open, itself included, as absolute paths in
 * order. Of an export with conditions it has every file. Dependencies from npm are left out: the lockfile
 * names their versions.
 */
export function loadedFiles(entry: string): readonly string[] {
  const found = new Set([entry]);
  for (const file of found) for (const target of filesNamedIn(file)) found.add(target);
  return [...found].sort();
}

function filesNamedIn(file: string): readonly string[] {
  const known = named.get(file);
  if (known !== undefined) return known;
  const targets = namesLoaded(readFileSync(file, "utf8")).flatMap((name) => targetsOf(name, file));
  const files = targets.filter(isFile);
  named.set(file, files);
  return files;
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

let packages: readonly WorkspacePackage[] | undefined;

function targetsOf(name: string, importer: string): string[] {
  packages ??= workspacePackages();
  if (name.startsWith(".")) return [join(dirname(importer), name)];
  if (name.startsWith("#")) {
    const own = packages.find(({ path }) => importer.startsWith(join(workspaceRoot, path, "/")));
    return Object.entries(own?.manifest.imports ?? {}).flatMap(([pattern, target]) => {
      const prefix = pattern.replace("*", "");
      if (typeof target !== "string" || !name.startsWith(prefix)) return [];
      return [join(workspaceRoot, own!.path, target.replace("*", name.slice(prefix.length)))];
    });
  }
  const other = packages.find(
    ({ manifest }) => name === manifest.name || name.startsWith(`${manifest.name}/`),
  );
  const { exports } = other?.manifest ?? {};
  if (other === undefined || exports === undefined) return [];
  const subpath = `.${name.slice(other.manifest.name.length)}`;
  const entry = typeof exports === "string" || !("." in exports) ? exports : exports[subpath];
  return entry === undefined ? [] : leaves(entry).map((target) => join(workspaceRoot, other.path, target));
}

function leaves(entry: Exports): string[] {
  return typeof entry === "string" ? [entry] : Object.values(entry).flatMap(leaves);
}
