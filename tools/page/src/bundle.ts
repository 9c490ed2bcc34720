import { readFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

/** What a page is made of. */
export interface PageSources {
  /** It loads `./page.js` as a module, and `./style.css` for how the pages look. */
  readonly html: URL;
  /** The compiled module that becomes `page.js`, with all that it imports. */
  readonly script: URL;
  /** More files, by their paths on the server, such as "/data.bin". Default: none. */
  readonly files?: Readonly<Record<string, Uint8Array>>;
}

/** Files by their paths on the server, such as "/page.js"; the page itself is "/index.html". */
export type PageFiles = ReadonlyMap<string, Uint8Array>;

/**
 * The script of the CPU backend's workers. The backend names it by `new URL("./worker.js", import.meta.url)`, which
 * esbuild leaves as it is: the bundle needs a file of that name beside it.
 */
const cpuWorker = join(
  dirname(fileURLToPath(import.meta.resolve("@backplane/backend-cpu"))),
  "queue/worker.js",
);

const style = new URL("../src/style.css", import.meta.url);

/** Bundles a page. A module that several of its dependencies import is there once. */
export async function bundleFiles({ html, script, files = {} }: PageSources): Promise<PageFiles> {
  const folder = dirname(fileURLToPath(script));
  const { outputFiles } = await build({
    entryPoints: { page: fileURLToPath(script), worker: cpuWorker },
    outdir: folder,
    absWorkingDir: folder,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "browser",
    target: "es2023",
    write: false,
    logLevel: "warning",
  });
  const scripts = outputFiles.map(({ path, contents }) => [`/${relative(folder, path)}`, contents] as const);
  return new Map([
    ["/index.html", new Uint8Array(await readFile(html))],
    ["/style.css", new Uint8Array(await readFile(style))],
    ...Object.entries(files),
    ...scripts,
  ]);
}
