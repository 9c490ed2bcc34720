import { readFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
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

export interface PageServer {
  readonly origin: string;
  close(): Promise<void>;
}

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".map": "application/json",
  ".wasm": "application/wasm",
};

const ISOLATION = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
};

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

  async function answer(url: URL, response: ServerResponse): Promise<void> {
    const entry = url.searchParams.get("entry");
    if (url.pathname === "/page" && entry !== null) {
      const { isIsolated, inWorker } = entryForm(entry);
      send(response, ".html", page(map, inWorker ? "worker-page" : "page"), isIsolated);
    } else if (url.pathname === "/vendor/mocha.js") {
      send(response, ".js", await readFile(fileURLToPath(import.meta.resolve("mocha/mocha.js"))), true);
    } else if (vendors.has(url.pathname)) {
      const vendor = vendors.get(url.pathname)!;
      send(response, ".js", await once(url.pathname, () => bundle(vendor)), true);
    } else if (url.pathname.startsWith(`${WORKER_ROOT}/`)) {
      const pathname = url.pathname.slice(WORKER_ROOT.length);
      const file = workspaceFile(pathname);
      const body =
        extname(file) === ".js"
          ? once(url.pathname, () => workerModule(file, pathname, map))
          : readFile(file);
      send(response, extname(file), await body, true);
    } else {
      const file = workspaceFile(url.pathname);
      send(response, extname(file), await readFile(file), true);
    }
  }

  const server = createServer((request, response) => {
    answer(new URL(request.url!, "http://host"), response).catch((error: Error) => {
      response.writeHead(404, { "Content-Type": "text/plain" }).end(error.message);
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}

function send(
  response: ServerResponse,
  extension: string,
  body: string | Uint8Array,
  isolated: boolean,
): void {
  response.writeHead(200, {
    "Content-Type": CONTENT_TYPES[extension] ?? "application/octet-stream",
    "Cache-Control": "no-store",
    ...(isolated ? ISOLATION : {}),
  });
  response.end(body);
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
