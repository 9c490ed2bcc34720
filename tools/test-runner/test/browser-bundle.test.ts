// Tags: proof
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
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

/** What a page loads at its start, and what it loads when it asks for more. */
interface Loaded {
  readonly files: ReadonlyMap<string, Uint8Array>;
  readonly atStart: readonly string[];
  /** The modules of the packages in the former. */
  readonly modules: readonly string[];
}

const entry = "page.js";

/** Bundles a page as applications do: what is imported when it is needed lies in files of its own. */
async function bundledPage(script: string): Promise<Loaded> {
  const { metafile, outputFiles } = await build({
    stdin: { contents: script, resolveDir: join(workspaceRoot, "bench"), sourcefile: entry },
    absWorkingDir: workspaceRoot,
    outdir: "out",
    entryNames: "page",
    ...{ bundle: true, splitting: true, minify: true, format: "esm", platform: "browser" },
    ...{ write: false, metafile: true, logLevel: "silent" },
  });
  const { outputs } = metafile;
  const atStart = new Set<string>();
  const add = (path: string): void => {
    if (atStart.has(path)) return;
    atStart.add(path);
    for (const { kind, path: imported } of outputs[path]!.imports)
      if (kind === "import-statement") add(imported);
  };
  add(`out/${entry}`);
  return {
    files: new Map(outputFiles.map(({ path, contents }) => [basename(path), contents])),
    atStart: Array.from(atStart, (path) => basename(path)),
    modules: [...atStart].flatMap((path) => Object.keys(outputs[path]!.inputs)),
  };
}

/** An application that uses two operations, and the most that a page may load for it, in bytes with gzip. */
const applications = {
  "backend-webgpu": { create: "createWebGpuBackend", mostBytes: 71_300 },
  "backend-cpu": { create: "createCpuBackend", mostBytes: 49_400 },
} as const;

type BackendName = keyof typeof applications;

const pageOf = (name: BackendName, kernels = "gemm, unary"): Promise<Loaded> =>
  bundledPage(`
import { ${applications[name].create} as create } from "@backplane/${name}/bare";
import { ${kernels} } from "@backplane/${name}/kernels";
export const open = (options) => create({ ...options, kernels: [${kernels}] });
`);

/** The folders of the kernels that a program may choose from. */
function kernelFolders(name: BackendName): readonly string[] {
  const list = readFileSync(join(workspaceRoot, "packages", name, "src/kernels/list.ts"), "utf8");
  return Array.from(new Set(Array.from(list.matchAll(/ from "\.\/([\w-]+)\//g), ([, folder]) => folder!)));
}

/** Those of them that a bundle has something of. */
function kernelsIn(name: BackendName, modules: readonly string[]): readonly string[] {
  return kernelFolders(name).filter((folder) =>
    modules.some((path) => path.includes(`packages/${name}/dist/kernels/${folder}/`)),
  );
}

/** A backend as these tests use it. */
interface Backend {
  init(): Promise<void>;
  dispose(): Promise<void>;
  alloc(bytes: number): number;
  copyHtoD(destination: number, source: Float32Array): void;
  copyDtoH(destination: Float32Array, source: number): Promise<void>;
  gemm(args: object): void;
  unary(args: object): void;
  softmax(args: object): void;
  warmup?(plan: (backend: Backend) => void): Promise<unknown>;
}

describe("bundle of an application that uses gemm and unary", () => {
  for (const name of Object.keys(applications) as BackendName[]) {
    describe(`of @backplane/${name}`, () => {
      let page: Loaded;
      before(async () => {
        page = await pageOf(name);
      });

      it("is not longer than it may be, and about as long as README.md says", () => {
        const texts = page.atStart.map((file) => page.files.get(file)!);
        const sum = (lengths: readonly number[]) => lengths.reduce((all, length) => all + length, 0);
        const sizes = [
          sum(texts.map(({ length }) => length)),
          sum(texts.map((text) => gzipSync(text).length)),
        ];
        assert.isAtMost(sizes[1]!, applications[name].mostBytes);
        const readme = readFileSync(join(workspaceRoot, "README.md"), "utf8");
        const title = `\`gemm\` and \`unary\` of \`@backplane/${name}\``;
        const row = new RegExp(`^\\| ${title} \\| (\\d+) KB \\| (\\d+) KB \\|`, "m").exec(readme);
        for (const [i, size] of sizes.entries())
          assert.approximately(Number(row?.[i + 1]), size / 1000, size / 10_000, sizes.join(", "));
      });

      it("has no other kernels, and the bundle of all has every one", async () => {
        const all = await bundledPage(`export * from "@backplane/${name}";`);
        assert.sameMembers([...kernelsIn(name, all.modules)], [...kernelFolders(name)]);
        assert.sameMembers([...kernelsIn(name, page.modules)], ["gemm", "unary"]);
      });

      it("has of unary only the activations, if gemm alone is used", async () => {
        const ofUnary = (modules: readonly string[]) =>
          modules.flatMap((path) => /\/kernels\/unary\/(\w+)[^/]*$/.exec(path)?.[1] ?? []);
        assert.includeMembers(ofUnary(page.modules), ["activations", "functions"]);
        const { modules } = await pageOf(name, "gemm");
        assert.include(ofUnary(modules), "activations");
        assert.notInclude(ofUnary(modules), "functions");
      });

      it("computes", async () => {
        const folder = mkdtempSync(join(tmpdir(), "bundle-"));
        try {
          writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
          for (const [file, contents] of page.files) writeFileSync(join(folder, file), contents);
          const { open } = (await import(pathToFileURL(join(folder, entry)).href)) as {
            open(options: object): Backend;
          };
          const backend = open(name === "backend-cpu" ? { threads: 0 } : { adapter: await adapter() });
          await backend.init();
          await computes(backend);
          await backend.dispose();
        } finally {
          rmSync(folder, { recursive: true });
        }
      });
    });
  }
});

/** Kept, since Dawn ends the process if it is collected while a device lives. */
let gpu: { requestAdapter(): Promise<object | null> } | undefined;

/** Dawn's adapter: bundles for pages do not look for one in Node.js. */
async function adapter(): Promise<object> {
  const ofBackend = createRequire(join(workspaceRoot, "packages/backend-webgpu/package.json"));
  const { create } = (await import(pathToFileURL(ofBackend.resolve("webgpu")).href)) as {
    create(flags: readonly string[]): { requestAdapter(): Promise<object | null> };
  };
  gpu ??= create([]);
  return (await gpu.requestAdapter())!;
}

async function computes(backend: Backend): Promise<void> {
  const [a, c] = [backend.alloc(16), backend.alloc(16)];
  backend.copyHtoD(a, new Float32Array([1, -2, 3, 4]));
  const product = (on: Backend): void => on.gemm({ m: 2, n: 2, k: 2, a, b: a, c });
  // Loads what the page did not load at its start.
  await backend.warmup?.(product);
  product(backend);
  backend.unary({ kind: "relu", n: 4, input: c, output: c });
  const results = new Float32Array(4);
  await backend.copyDtoH(results, c);
  assert.deepEqual([...results], [0, 0, 15, 10]);
  assert.throws(
    () => backend.softmax({}),
    /import \{ softmax \} from "[^"]+\/kernels" and add it to the option kernels$/,
  );
}
