import { readFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { importMap, type VendorPackage, vendorPackages, vendorPath } from "./import-map.js";
import { type WorkspacePackage, workspacePackages, workspaceRoot } from "./workspace.js";

export interface PageServer {
  readonly origin: string;
  close(): Promise<void>;
}

/** An entry whose name ends so is served without isolation: the page then has no SharedArrayBuffer. */
const NOT_ISOLATED = ".not-isolated.js";

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

export function isIsolated(entry: string): boolean {
  return !entry.endsWith(NOT_ISOLATED);
}

/** Serves test pages, the compiled packages of the workspace, and their npm dependencies. */
export async function startPageServer(): Promise<PageServer> {
  const packages = workspacePackages();
  const vendors = new Map(
    [...vendorPackages(packages).values()].map((vendor) => [vendorPath(vendor.name), vendor]),
  );
  const bundles = new Map<string, Promise<string>>();

  async function answer(url: URL, response: ServerResponse): Promise<void> {
    const entry = url.searchParams.get("entry");
    if (url.pathname === "/page" && entry !== null) {
      send(response, ".html", page(packages), isIsolated(entry));
    } else if (url.pathname === "/vendor/mocha.js") {
      send(response, ".js", await readFile(fileURLToPath(import.meta.resolve("mocha/mocha.js"))), true);
    } else if (vendors.has(url.pathname)) {
      if (!bundles.has(url.pathname)) bundles.set(url.pathname, bundle(vendors.get(url.pathname)!));
      send(response, ".js", await bundles.get(url.pathname)!, true);
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

function page(packages: readonly WorkspacePackage[]): string {
  return `<!doctype html>
<meta charset="utf-8">
<title>Backplane browser tests</title>
<link rel="icon" href="data:,">
<script type="importmap">${JSON.stringify(importMap(packages))}</script>
<script src="/vendor/mocha.js"></script>
<script type="module" src="/tools/test-runner/dist/page.js"></script>
`;
}
