import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { assert } from "chai";
import { loadedFiles, namesLoaded } from "#src/loaded-files.js";
import { digestOfFile, environmentOf, Proven, type Record } from "#src/proven.js";
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
    const laws = loaded("packages/backend-webgpu/dist-test/laws-kernels/products.test.js");
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

  it("has the processor where programs are made for it: in Chromium, and beside lavapipe and relaxed SIMD", () => {
    const [node, entry] = ["laws-engine.test", "browser/laws-engine"].map((name) =>
      join(workspaceRoot, `packages/backend-cpu/dist-test/${name}.js`),
    ) as [string, string];
    assert.notEqual(digestOfFile(entry, "this"), digestOfFile(entry, "another"));
    assert.equal(digestOfFile(node, "this"), digestOfFile(node, "another"));
    const [older, newer] = [
      { ...process.versions, node: "20.19.0", v8: "11.3.244" },
      { ...process.versions, node: "26.0.0", v8: "14.2.1" },
    ] as const;
    const system = `${process.platform} ${process.arch}`;
    assert.equal(environmentOf("SwiftShader 1", older), `SwiftShader 1, Node.js 20, ${system}`);
    const processor = cpus()[0]!.model;
    assert.equal(environmentOf("SwiftShader 1", newer), `SwiftShader 1, Node.js 26, ${system}, ${processor}`);
    assert.equal(environmentOf("lavapipe 1", older), `lavapipe 1, Node.js 20, ${system}, ${processor}`);
  });

  it("has programs that it starts and files that it opens, by their names relative to a module", () => {
    const loaded = loadedFiles(join(workspaceRoot, "packages/tfjs/dist-test/suite-cpu.test.js"));
    const names = loaded.map((file) => file.slice(workspaceRoot.length));
    assert.includeMembers(names, [
      "docs/tfjs-suite.md",
      ...["main", "hooks", "providers"].map((name) => `packages/tfjs/dist-test/suite/${name}.js`),
      ...["tfjs", "backend-cpu", "core"].map((name) => `packages/${name}/dist/index.js`),
    ]);
  });

  it("is all that a pure file needs: few start a program or open a file, and none looks at a clock", () => {
    const packages = workspacePackages().map(({ path }) => path);
    const pure = [...packages.flatMap(nodeTests), ...packages.flatMap(browserEntries)].filter(({ tags }) =>
      tags.includes("pure"),
    );
    const modules = pure.flatMap(({ compiled }) =>
      loadedFiles(compiled.startsWith(workspaceRoot) ? compiled : join(workspaceRoot, compiled)),
    );
    const ofTests = [...new Set(modules)].filter((file) => /\/dist-test\/.*\.js$/.test(file));
    assert.isAbove(ofTests.length, pure.length);
    const reaching = ofTests.filter((file) =>
      /node:(fs|child_process|net|http|worker_threads)/.test(namesLoaded(readFileSync(file, "utf8")).join()),
    );
    // They name what they start and open, so that it is loaded too.
    assert.sameMembers(
      reaching.map((file) => file.slice(workspaceRoot.length)),
      [
        "examples/digits/dist-test/program.js",
        "packages/conformance/dist-test/report.test.js",
        ...["suite", "suite/main", "suite/hooks"].map((name) => `packages/tfjs/dist-test/${name}.js`),
      ],
    );
  });
});
