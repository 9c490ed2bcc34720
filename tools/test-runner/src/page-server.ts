import { readFile } from "node:fs/promises";
import { extname, join, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { type Content, type PageServer, startServer } from "@backplane/page";
import { build, type Plugin } from "esbuild";
import { entryForm, WORKER_ROOT } from "./entry.js";
import {
  type ImportMap,
  importMap,
  resolveSpecifier,
  VENDOR_ROOT,
  type VendorPackage,
  vendorPackages,
  vendorPath,
} from "./import-map.js";
import { workspacePackages, workspaceRoot } from "./workspace.js";

/** Serves test pages, the compiled packages of the workspace, and their npm dependencies. */
export async function startPageServer(): Promise<PageServer> {
  const packages = workspacePackages();
  const map = importMap(packages);
  const vendors = new Map(
    [...vendorPackages(packages).values()].map((vendor) => [vendorPath(vendor.name), vendor]),
  );
  /** esbuild's results, by requested path. Files do not change during a run. */
  const built = new Map<string, Promise<string>>();
  const once = (pathname: string, build: () => Promise<string>): Promise<string> => {
    if (!built.has(pathname)) built.set(pathname, build());
    return built.get(pathname)!;
  };

  return startServer(async ({ pathname, searchParams }): Promise<Content> => {
    const entry = searchParams.get("entry");
    if (pathname === "/page" && entry !== null) {
      const { isIsolated, inWorker } = entryForm(entry);
      return { extension: ".html", body: page(map, inWorker ? "worker-page" : "page"), isIsolated };
    }
    if (pathname === "/vendor/mocha.js")
      return { extension: ".js", body: await readFile(fileURLToPath(import.meta.resolve("mocha/mocha.js"))) };
    const vendor = vendors.get(pathname);
    if (vendor !== undefined) return { extension: ".js", body: await once(pathname, () => bundle(vendor)) };
    if (!pathname.startsWith(`${WORKER_ROOT}/`)) return fileContent(workspaceFile(pathname));
    const original = pathname.slice(WORKER_ROOT.length);
    const file = workspaceFile(original);
    if (extname(file) !== ".js") return fileContent(file);
    return { extension: ".js", body: await once(pathname, () => workerModule(file, original, map)) };
  });
}

async function fileContent(file: string): Promise<Content> {
  return { extension: extname(file), body: await readFile(file) };
}

function workspaceFile(pathname: string): string {
  const file = resolve(join(workspaceRoot, decodeURIComponent(pathname)));
  if (!file.startsWith(resolve(workspaceRoot) + sep)) throw new Error(`${pathname} is outside the workspace`);
  return file;
}

async function bundle(vendor: VendorPackage): Promise<string> {
  const result = await build({
    entryPoints: [vendor.name],
    absWorkingDir: join(workspaceRoot, vendor.from),
    bundle: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    write: false,
    logLevel: "silent",
  });
  return result.outputFiles[0]!.text;
}

/**
 * Returns a module with its imports by name replaced by addresses. esbuild is used because it knows what an
 * import is; nothing is bundled, so `import.meta.url` and the identity of modules are as in a page.
 */
async function workerModule(file: string, pathname: string, map: ImportMap): Promise<string> {
  const addresses: Plugin = {
    name: "addresses",
    setup({ onResolve }) {
      onResolve({ filter: /.*/ }, ({ kind, path }) => {
        if (kind === "entry-point") return undefined;
        const target = resolveSpecifier(map, path, pathname);
        const isOurs = target !== path && !target.startsWith(VENDOR_ROOT);
        return { path: isOurs ? WORKER_ROOT + target : target, external: true };
      });
    },
  };
  const result = await build({
    entryPoints: [file],
    bundle: true,
    format: "esm",
    platform: "browser",
    target: "esnext",
    treeShaking: false,
    plugins: [addresses],
    write: false,
    logLevel: "silent",
  });
  return result.outputFiles[0]!.text;
}

function page(map: ImportMap, script: "page" | "worker-page"): string {
  return `<!doctype html>
<meta charset="utf-8">
<title>Backplane browser tests</title>
<link rel="icon" href="data:,">
<script type="importmap">${JSON.stringify(map)}</script>
<script type="module" src="/tools/test-runner/dist/${script}.js"></script>
`;
}
