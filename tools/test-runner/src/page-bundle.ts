import { existsSync, readFileSync } from "node:fs";
import { copyFile, mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { build } from "esbuild";
import { workspaceRoot } from "./workspace.js";

/** Path of the bundled page, relative to the root of the workspace. */
export const bundledPage = "packages/conformance/dist/page";

/**
 * Bundles the page of the conformance suite, so that its package works from any static server, whatever the layout of
 * `node_modules`. Writes `index.html` and everything that it loads. `@backplane/core` and `@backplane/conformance`
 * are entries of their own, so that the backend under test can import them too and gets the same modules.
 */
export async function bundlePage(): Promise<void> {
  const conformance = join(workspaceRoot, "packages/conformance");
  const page = join(workspaceRoot, bundledPage);
  const bundle = join(page, "bundle");
  // Names of shared chunks depend on their content: older ones would stay behind.
  await rm(bundle, { recursive: true, force: true });
  await mkdir(bundle, { recursive: true });
  const { metafile } = await build({
    entryPoints: {
      page: join(page, "main.js"),
      core: join(workspaceRoot, "packages/core/dist/index.js"),
      conformance: join(conformance, "dist/index.js"),
    },
    outdir: bundle,
    absWorkingDir: workspaceRoot,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "browser",
    target: "es2023",
    // Names are kept: they appear in stack traces, which reports may show.
    minifyWhitespace: true,
    minifySyntax: true,
    metafile: true,
    logLevel: "warning",
  });
  await copyFile(join(conformance, "src/page/index.html"), join(page, "index.html"));
  await writeFile(join(bundle, "LICENSES.txt"), licenses(Object.keys(metafile.inputs)));
}

/** Returns the licenses of all npm packages with bundled files, because they must accompany these. */
function licenses(inputs: readonly string[]): string {
  const folders = new Set<string>();
  for (const input of inputs) if (input.includes("node_modules/")) folders.add(packageFolder(input));
  return [...folders]
    .sort()
    .map((folder) => {
      const { name, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      return `${name} ${version}\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`;
    })
    .join("\n");
}

function packageFolder(input: string): string {
  let folder = dirname(resolve(workspaceRoot, input));
  // Packages may have nameless manifests in inner folders, to set the type of modules.
  while (!existsSync(join(folder, "LICENSE")) || !existsSync(join(folder, "package.json"))) {
    if (folder === dirname(folder)) throw new Error(`${input} belongs to no package with a license`);
    folder = dirname(folder);
  }
  return folder;
}
