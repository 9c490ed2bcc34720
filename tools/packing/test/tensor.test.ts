// Tags: proof
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assert } from "chai";
import { install, manifestOf, pack, root, run } from "#src/packing.js";

/** Trains one number, saves it and reads it again. */
const example = `import { createCpuBackend } from "@backplane/backend-cpu";
import { scope, Sgd, tensor, valueAndGrad } from "@backplane/tensor";
import { load, save } from "@backplane/tensor/node";

const backend = createCpuBackend();
await backend.init();
const w = tensor(backend, [5]);
const optimizer = new Sgd([w], { rate: 0.25 });
const step = valueAndGrad(() => w.sub(1).square().sum(), { at: [w] });
for (let i = 0; i < 2; i++) scope(() => optimizer.step(step().gradients));
await save("w.safetensors", new Map([["w", w]]));
console.log(await (await load(backend, "w.safetensors")).tensors.get("w")?.toArray());
await backend.dispose();
`;

describe("the tensor package in a folder of its own", () => {
  let folder = "";

  before("pack and install", () => {
    folder = mkdtempSync(join(tmpdir(), "backplane-packing-"));
    const files = ["packages/core", "packages/backend-cpu", "packages/tensor"].map((path) =>
      pack(path, folder),
    );
    install(folder, files);
  });

  after(() => rmSync(folder, { recursive: true, force: true }));

  it("depends on core alone, and names no backend in its code", () => {
    const { dependencies } = manifestOf(folder, "@backplane/tensor");
    assert.deepEqual(Object.keys(dependencies ?? {}), ["@backplane/core"]);
    const dist = join(folder, "node_modules/@backplane/tensor/dist");
    const files = readdirSync(dist, { recursive: true, encoding: "utf8" }).filter((file) =>
      /\.[jt]s$/.test(file),
    );
    assert.isNotEmpty(files);
    for (const file of files) {
      const text = readFileSync(join(dist, file), "utf8");
      assert.notInclude(text, "@backplane/backend-", file);
      // Pages can load everything but the entry point for Node.js.
      if (!/^node\.(d\.ts|js)$/.test(file)) assert.notMatch(text, /from "node:/, file);
    }
  });

  it("trains and saves by a few lines, which TypeScript accepts", () => {
    writeFileSync(join(folder, "example.js"), example);
    assert.equal(run([process.execPath], ["example.js"], folder), "[ 2 ]\n");
    const compilerOptions = {
      ...{ strict: true, module: "nodenext", target: "es2023", noEmit: true, checkJs: true },
      // Declarations of ours are checked too: no other setting would find what is wrong in them.
      ...{ skipLibCheck: false, types: [], lib: ["es2023", "esnext.disposable", "dom"] },
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["example.js"] }));
    run([process.execPath, join(root, "node_modules/typescript/bin/tsc")], ["-p", "."], folder);
  });
});
