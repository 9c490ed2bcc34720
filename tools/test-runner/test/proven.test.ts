import { readFileSync } from "node:fs";
import { join } from "node:path";
import { assert } from "chai";
import { loadedFiles, namesLoaded } from "#src/loaded-files.js";
import { digestOfFile, Proven, type Record } from "#src/proven.js";
import type { Tag } from "#src/tags.js";
import {
  browserEntries,
  nodeTests,
  type TestFile,
  workspacePackages,
  workspaceRoot,
} from "#src/workspace.js";

const testFile = (name: string, tags: readonly Tag[] = ["pure"]): TestFile => ({
  compiled: join(workspaceRoot, `packages/some/dist-test/${name}.test.js`),
  tags,
});
const nameOf = (name: string) => `packages/some/dist-test/${name}.test.js`;

describe("what has been proven", () => {
  const digests: { [file: string]: string } = { a: "1", b: "2" };
  const digestOf = (file: string) => digests[/(\w+)\.test\.js$/.exec(file)![1]!]!;
  const record: Record = { here: { [nameOf("a")]: "1", [nameOf("b")]: "changed" } };

  it("is what passed in this environment with the same code", () => {
    const here = new Proven("here", record, digestOf);
    assert.isTrue(here.has(testFile("a")));
    assert.isFalse(here.has(testFile("b")));
    assert.isFalse(new Proven("elsewhere", record, digestOf).has(testFile("a")));
    assert.isFalse(here.has(testFile("a", ["kernels"])), "only a pure file is proven");
  });

  it("has entries of the browser part too, by their places in the workspace", () => {
    const entry: TestFile = { compiled: "/packages/some/dist-test/browser/b.test.js", tags: ["pure"] };
    const seen: string[] = [];
    const here = new Proven("here", {}, (file) => {
      seen.push(file);
      return "1";
    });
    const renewed = here.renewed([entry], [entry]);
    assert.deepEqual(renewed, { here: { "packages/some/dist-test/browser/b.test.js": "1" } });
    assert.isTrue(new Proven("here", renewed, () => "1").has(entry));
    assert.isFalse(new Proven("here", renewed, () => "2").has(entry));
    assert.deepEqual(seen, [join(workspaceRoot, entry.compiled)]);
  });

  it("gains what passed, keeps what holds, and loses what changed or is gone", () => {
    const files = [testFile("a"), testFile("b"), testFile("c", [])];
    const others = { elsewhere: { [nameOf("z")]: "9" } };
    const old = { ...others, here: { [nameOf("a")]: "1", [nameOf("b")]: "0", [nameOf("gone")]: "3" } };
    const proven = new Proven("here", old, digestOf);
    assert.deepEqual(proven.renewed(files, []), { ...others, here: { [nameOf("a")]: "1" } });
    // What passed was listed before, by other objects.
    assert.deepEqual(proven.renewed(files, [testFile("b"), testFile("c", [])]), {
      ...others,
      here: { [nameOf("a")]: "1", [nameOf("b")]: "2" },
    });
  });
});

describe("what a file of tests loads", () => {
  it("is named by imports of each form, and by addresses relative to the module", () => {
    const source = `
      import { a } from "./a.js";
      import "#src/b.js";
      export * from "../c.js";
      const d = await import("@backplane/core");
      new Worker(new URL("./e.js", import.meta.url));
      const text = "./f.js";`;
    assert.sameMembers(
      [...namesLoaded(source)],
      ["./a.js", "#src/b.js", "../c.js", "@backplane/core", "./e.js"],
    );
  });

  it("reaches through packages: a kernel, core, the laws, a worker's program", () => {
    const loaded = (path: string) =>
      loadedFiles(join(workspaceRoot, path)).map((file) => file.slice(workspaceRoot.length));
    const gemm = loaded("packages/backend-webgpu/dist-test/gemm.test.js");
    for (const file of [
      "packages/backend-webgpu/dist-test/gemm.test.js",
      "packages/backend-webgpu/dist-test/gemm-cases.js",
      "packages/backend-webgpu/dist/kernels/gemm/index.js",
      "packages/core/dist/index.js",
      "packages/core/dist/ops/gemm/index.js",
    ])
      assert.include(gemm, file);
    assert.notInclude(gemm, "packages/backend-cpu/dist/index.js");
    const laws = loaded("packages/backend-webgpu/dist-test/laws-kernels.test.js");
    for (const file of ["packages/conformance/dist/ops/gemm/laws.js", "packages/backend-webgpu/dist/node.js"])
      assert.include(laws, file);
    const bare = loaded("packages/backend-webgpu/dist-test/laws-bare.test.js");
    assert.include(bare, "packages/backend-webgpu/dist/kernels/unary/index.js");
    // Loaded when it is needed.
    assert.include(bare, "packages/backend-webgpu/dist/tuning/planned.js");
    assert.isTrue(
      loaded("packages/backend-cpu/dist-test/laws.test.js").some((file) => file.includes("worker")),
    );
  });

  it("decides the digest, which is the same every time", () => {
    const [gemm, conv2d] = ["gemm", "conv2d"].map((name) =>
      join(workspaceRoot, `packages/backend-webgpu/dist-test/${name}.test.js`),
    ) as [string, string];
    assert.equal(digestOfFile(gemm), digestOfFile(gemm));
    assert.notEqual(digestOfFile(gemm), digestOfFile(conv2d));
  });

  it("is all that a pure file needs: none starts a process, opens a file or looks at a clock", () => {
    const isPure = ({ tags }: TestFile) => tags.includes("pure");
    const packages = workspacePackages().map(({ path }) => path);
    const inBrowsers = packages
      .flatMap(browserEntries)
      .filter(isPure)
      .map(({ compiled }) => ({ compiled: join(workspaceRoot, compiled) }));
    const pure = [...packages.flatMap(nodeTests).filter(isPure), ...inBrowsers];
    assert.isNotEmpty(inBrowsers);
    // Chromium has relaxed SIMD, and the environment does not name the processor for its sake.
    for (const { compiled } of inBrowsers)
      assert.isFalse(
        loadedFiles(compiled).some((file) => file.includes("/backend-cpu/")),
        compiled,
      );
    for (const { compiled } of pure) {
      const names = namesLoaded(readFileSync(compiled, "utf8"));
      assert.notMatch(names.join(), /node:(fs|child_process|net|http|worker_threads)/, compiled);
    }
  });
});
