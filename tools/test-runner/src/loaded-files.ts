import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Exports, type WorkspacePackage, workspacePackages, workspaceRoot } from "./workspace.js";

/** Static and dynamic imports, and files named relative to their module, such as those of workers. */
const references =
  /(?:\bfrom|\bimport)\s*\(?\s*"([^"\n]+)"|new URL\(\s*"(\.[^"\n]+)",\s*import\.meta\.url\s*\)/g;

/** Returns what a compiled module loads, by the names that it uses. Comments may add names. */
export function namesLoaded(source: string): readonly string[] {
  return [...new Set([...source.matchAll(references)].map(([, imported, file]) => (imported ?? file)!))];
}

/**
 * Returns the compiled files of the workspace that a module can load, itself included, as absolute paths in
 * order. Of an export with conditions it has every file. Dependencies from npm are left out: the lockfile
 * names their versions.
 */
export function loadedFiles(entry: string): readonly string[] {
  const packages = workspacePackages();
  const found = new Set([entry]);
  for (const file of found)
    for (const name of namesLoaded(readFileSync(file, "utf8")))
      for (const target of targetsOf(name, file, packages)) if (existsSync(target)) found.add(target);
  return [...found].sort();
}

function targetsOf(name: string, importer: string, packages: readonly WorkspacePackage[]): string[] {
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
