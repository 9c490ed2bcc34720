import { dirname } from "node:path/posix";
import type { Exports, Manifest, WorkspacePackage } from "./workspace.js";

export interface ImportMap {
  readonly imports: Record<string, string>;
  /** A package's private names ("#src/...") hold inside that package only. */
  readonly scopes: Record<string, Record<string, string>>;
}

export interface VendorPackage {
  /** The package of the workspace from which the name is resolved. */
  readonly from: string;
  readonly name: string;
}

/** Below this path the server has npm packages, each as one module without imports. */
export const VENDOR_ROOT = "/vendor/";

const CONDITIONS = ["browser", "import", "default"];

/**
 * Lets a page load the packages of the workspace as they are published, module by module, so that a
 * worker's `new URL("./worker.js", import.meta.url)` points at a real file. Dependencies from npm are
 * bundled into one module each, under /vendor/.
 */
export function importMap(packages: readonly WorkspacePackage[]): ImportMap {
  const map: ImportMap = { imports: {}, scopes: {} };
  for (const { name } of vendorPackages(packages).values()) map.imports[name] = vendorPath(name);
  for (const { path, manifest } of packages) {
    for (const [specifier, target] of exported(manifest)) {
      map.imports[specifier] = new URL(target, `http://host/${path}/`).pathname;
    }
    const scope: Record<string, string> = {};
    for (const [pattern, target] of Object.entries(manifest.imports ?? {})) {
      if (typeof target !== "string" || !pattern.endsWith("/*")) continue;
      scope[dirname(pattern).concat("/")] = new URL(
        dirname(target).concat("/"),
        `http://host/${path}/`,
      ).pathname;
    }
    map.scopes[`/${path}/`] = scope;
  }
  return map;
}

/**
 * Returns the address to which the map leads from a module at `importer`; the specifier itself if the map has
 * no entry for it.
 */
export function resolveSpecifier(
  { imports, scopes }: ImportMap,
  specifier: string,
  importer: string,
): string {
  for (const [scope, names] of Object.entries(scopes)) {
    if (!importer.startsWith(scope)) continue;
    for (const [prefix, target] of Object.entries(names)) {
      if (specifier.startsWith(prefix)) return target + specifier.slice(prefix.length);
    }
  }
  return imports[specifier] ?? specifier;
}

/** The npm dependencies that a page may import, by name. They are bundled when a page asks for them. */
export function vendorPackages(packages: readonly WorkspacePackage[]): Map<string, VendorPackage> {
  const own = new Set(packages.map(({ manifest }) => manifest.name));
  const vendors = new Map<string, VendorPackage>([["chai", { from: ".", name: "chai" }]]);
  for (const { path, manifest } of packages) {
    for (const name of Object.keys({ ...manifest.dependencies, ...manifest.devDependencies })) {
      if (!own.has(name) && !vendors.has(name)) vendors.set(name, { from: path, name });
    }
  }
  return vendors;
}

export function vendorPath(name: string): string {
  return `${VENDOR_ROOT}${name}.js`;
}

function exported(manifest: Manifest): [specifier: string, target: string][] {
  const { exports } = manifest;
  if (exports === undefined) return [];
  const bySubpath = typeof exports === "string" || !("." in exports) ? { ".": exports } : exports;
  return Object.entries(bySubpath).flatMap(([subpath, entry]): [string, string][] => {
    const target = resolveConditions(entry);
    return target?.endsWith(".js") ? [[manifest.name + subpath.slice(1), target]] : [];
  });
}

function resolveConditions(entry: Exports): string | undefined {
  if (typeof entry === "string") return entry;
  for (const [condition, inner] of Object.entries(entry)) {
    const target = CONDITIONS.includes(condition) ? resolveConditions(inner) : undefined;
    if (target !== undefined) return target;
  }
  return undefined;
}
