// Tags: proof
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { assert } from "chai";
import { type BuildOptions, build } from "esbuild";
import { workspaceRoot } from "#src/workspace.js";

/** What somebody bundles who wants a backend in a page: by its name, as it is published. */
async function bundled(name: string, options: BuildOptions) {
  const { metafile, outputFiles } = await build({
    stdin: { contents: `export * from "${name}";`, resolveDir: join(workspaceRoot, "bench") },
    absWorkingDir: workspaceRoot,
    bundle: true,
    format: "esm",
    write: false,
    metafile: true,
    logLevel: "silent",
    ...options,
  });
  return { inputs: Object.keys(metafile!.inputs), code: outputFiles![0]!.text };
}

describe("bundle for browsers", () => {
  for (const name of ["core", "backend-cpu", "backend-webgpu", "conformance"])
    for (const platform of ["browser", "neutral"] as const)
      it(`has of @backplane/${name} nothing that only Node.js has (platform ${platform})`, async () => {
        // On the neutral platform esbuild reads no "main", which the dependencies of the suite have.
        const { inputs, code } = await bundled(`@backplane/${name}`, {
          platform,
          mainFields: ["module", "main"],
        });
        assert.include(inputs.join("\n"), `packages/${name}/dist/`);
        for (const input of inputs) assert.notMatch(input, /node_modules\/webgpu\/|\/node\.js$/);
        assert.notMatch(code, /\b(?:from|import)\s*\(?\s*["'](?:node:|webgpu["'])/);
      });

  it("is about as long as README.md says, minified and with gzip", async () => {
    const readme = readFileSync(join(workspaceRoot, "README.md"), "utf8");
    for (const name of ["core", "backend-cpu", "backend-webgpu"]) {
      const { code } = await bundled(`@backplane/${name}`, { platform: "browser", minify: true });
      const measured = [code.length, gzipSync(code).length].map((bytes) => Math.round(bytes / 1000));
      const row = new RegExp(`^\\| \`@backplane/${name}\` \\| (\\d+) KB \\| (\\d+) KB \\|`, "m").exec(readme);
      const shown = [Number(row?.[1]), Number(row?.[2])];
      // Not to be written anew for every kernel.
      for (const [i, size] of measured.entries())
        assert.approximately(shown[i]!, size, size / 10, `${name}: write ${measured.join(" KB, ")} KB`);
    }
  });

  it("has Dawn's package where Node.js is asked for, or these tests would prove nothing", async () => {
    const { code } = await bundled("@backplane/backend-webgpu", { platform: "node", external: ["webgpu"] });
    assert.match(code, /import\("webgpu"\)/);
  });
});
