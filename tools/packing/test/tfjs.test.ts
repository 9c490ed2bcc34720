// Tags: proof
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assert } from "chai";
import { install, manifestOf, pack, root, run } from "#src/packing.js";

/** Trains a model of tfjs-layers, and predicts with it. */
const example = `import { cpu } from "@backplane/backend-cpu";
import { register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import * as tfl from "@tensorflow/tfjs-layers";

const registration = await register(tf, [cpu()]);
const model = tfl.sequential({ layers: [tfl.layers.dense({ units: 1, inputShape: [1] })] });
model.compile({ optimizer: tf.train.adam(0.1), loss: "meanSquaredError" });
const [x, y] = [tf.tensor2d([0, 1, 2, 3], [4, 1]), tf.tensor2d([1, 3, 5, 7], [4, 1])];
await model.fit(x, y, { epochs: 200, verbose: 0 });
const predicted = /** @type {tf.Tensor} */ (model.predict(tf.tensor2d([10], [1, 1])));
console.log(tf.getBackend(), registration.current, Math.round((await predicted.data())[0] ?? 0));
await registration.dispose();
`;

describe("the TensorFlow.js package in a folder of its own", () => {
  let folder = "";

  before("pack and install", () => {
    folder = mkdtempSync(join(tmpdir(), "backplane-packing-"));
    const files = ["packages/core", "packages/backend-cpu", "packages/tfjs"].map((path) =>
      pack(path, folder),
    );
    install(folder, [...files, "@tensorflow/tfjs-layers@4.22.0"]);
  });

  after(() => rmSync(folder, { recursive: true, force: true }));

  it("depends on core and on kernels of the host, and leaves TensorFlow.js to its user", () => {
    const { dependencies, peerDependencies } = manifestOf(folder, "@backplane/tfjs");
    assert.sameMembers(Object.keys(dependencies ?? {}), ["@backplane/core", "@tensorflow/tfjs-backend-cpu"]);
    assert.deepEqual(Object.keys(peerDependencies ?? {}), ["@tensorflow/tfjs-core"]);
    // Two copies would be two engines.
    const nested = join(folder, "node_modules/@backplane/tfjs/node_modules");
    assert.throws(() => readdirSync(nested), /ENOENT/);
  });

  it("names no backend of ours and nothing of Node.js in its code", () => {
    const dist = join(folder, "node_modules/@backplane/tfjs/dist");
    const files = readdirSync(dist, { recursive: true, encoding: "utf8" }).filter((file) =>
      /\.[jt]s$/.test(file),
    );
    assert.isNotEmpty(files);
    for (const file of files) {
      const text = readFileSync(join(dist, file), "utf8");
      assert.notInclude(text, "@backplane/backend-", file);
      assert.notMatch(text, /from "node:/, file);
    }
  });

  it("trains by a few lines, which TypeScript accepts", () => {
    writeFileSync(join(folder, "example.js"), example);
    const output = run([process.execPath], ["example.js"], folder);
    assert.equal(output.trimEnd().split("\n").at(-1), "backplane cpu 21");
    const check = (skipLibCheck: boolean): string => {
      const compilerOptions = {
        ...{ strict: true, module: "nodenext", target: "es2023", noEmit: true, checkJs: true },
        ...{ skipLibCheck, types: [], lib: ["es2023", "esnext.disposable", "dom"] },
      };
      writeFileSync(
        join(folder, "tsconfig.json"),
        JSON.stringify({ compilerOptions, files: ["example.js"] }),
      );
      return run([process.execPath, join(root, "node_modules/typescript/bin/tsc")], ["-p", "."], folder);
    };
    check(true);
    // Declarations of TensorFlow.js have errors under strict rules; ours must have none.
    let errors = "";
    try {
      errors = check(false);
    } catch (error) {
      errors = (error as Error).message;
    }
    assert.deepEqual(
      errors.split("\n").filter((line) => /^(example\.js|node_modules\/@backplane\/)/.test(line)),
      [],
    );
  });
});
