// Tags: proof
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assert } from "chai";
import { install, manifestOf, pack, root, run } from "#src/packing.js";

/** What somebody with a backend writes; `my-backend.js` is the template. */
const example = `import { runLaws } from "@backplane/conformance";
import { minimal } from "./my-backend.js";

const results = await runLaws({ name: "mine", create: minimal.create, options: { mode: "quick", operations: ["gemm", "unary"] } });
const broken = results.filter(({ status }) => status === "broken");
for (const { error } of broken) console.error(String(error));
console.log(results.filter(({ status }) => status === "kept").length, "kept,", broken.length, "broken");
`;

describe("the packages in a folder of their own", () => {
  let folder = "";

  before("pack and install", () => {
    folder = mkdtempSync(join(tmpdir(), "backplane-packing-"));
    const files = ["packages/core", "packages/conformance"].map((path) => pack(path, folder));
    install(folder, files);
    const template = join(root, "examples/minimal-backend/dist");
    cpSync(join(template, "index.js"), join(folder, "my-backend.js"));
    cpSync(join(template, "index.d.ts"), join(folder, "my-backend.d.ts"));
  });

  after(() => rmSync(folder, { recursive: true, force: true }));

  it("bring no backend with them, and nothing else of ours", () => {
    assert.deepEqual(readdirSync(join(folder, "node_modules/@backplane")).sort(), ["conformance", "core"]);
    const { dependencies, optionalDependencies, peerDependencies } = manifestOf(
      folder,
      "@backplane/conformance",
    );
    assert.sameMembers(Object.keys(dependencies ?? {}), ["@backplane/core", "fast-check"]);
    assert.isUndefined(optionalDependencies);
    assert.isUndefined(peerDependencies);
    assert.isUndefined(manifestOf(folder, "@backplane/core").dependencies);
  });

  it("name no backend package in their code", () => {
    for (const name of ["core", "conformance"]) {
      const dist = join(folder, "node_modules/@backplane", name, "dist");
      const files = readdirSync(dist, { recursive: true, encoding: "utf8" }).filter((file) =>
        /\.[jt]s$/.test(file),
      );
      assert.isNotEmpty(files);
      for (const file of files)
        assert.notInclude(readFileSync(join(dist, file), "utf8"), '"@backplane/backend-', `${name}/${file}`);
    }
  });

  it("test a backend by ten lines, which TypeScript accepts", () => {
    assert.isAtMost(example.trimEnd().split("\n").length, 10);
    writeFileSync(join(folder, "example.js"), example);
    const output = run([process.execPath], ["example.js"], folder);
    const [kept, broken] = /^(\d+) kept, (\d+) broken\n$/.exec(output)?.slice(1).map(Number) ?? [];
    assert.equal(broken, 0, output);
    assert.isAbove(kept!, 50);

    const compilerOptions = {
      ...{ strict: true, module: "nodenext", target: "es2023", noEmit: true, checkJs: true },
      // Declarations of ours are checked too: no other setting would find what is wrong in them.
      ...{ skipLibCheck: false, types: [], lib: ["es2023", "esnext.disposable", "dom"] },
    };
    const files = ["example.js"];
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
    run([process.execPath, join(root, "node_modules/typescript/bin/tsc")], ["-p", "."], folder);
  });

  it("test a backend by one command, with a report", () => {
    const options = ["--mode", "quick", "--ops", "gemm,reduce", "--json", "report.json"];
    run(["npx", "--no"], ["@backplane/conformance", "./my-backend.js", ...options], folder);
    const { totals, subject } = JSON.parse(readFileSync(join(folder, "report.json"), "utf8"));
    assert.equal(subject.name, "minimal");
    assert.equal(totals.broken, 0);
    assert.isAbove(totals.kept, 5);
    assert.isAbove(totals.skipped, 5);
  });
});
