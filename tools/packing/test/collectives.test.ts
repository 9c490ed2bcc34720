// Tags: proof
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assert } from "chai";
import { install, manifestOf, pack } from "#src/packing.js";

/** A sum with oneself. */
const example = `
import { createCpuBackend } from "@backplane/backend-cpu";
import { openCommunicator } from "@backplane/collectives";
import { download, upload } from "@backplane/core";
const backend = createCpuBackend({ threads: 0 });
await backend.init();
const communicator = await openCommunicator();
const handle = upload(backend, Float32Array.of(1, 2));
await communicator.allReduce(backend, { input: handle, count: 2 });
console.log(communicator.size, ...(await download(backend, handle, Float32Array, 2)));
await communicator.dispose();
await backend.dispose();
`;

describe("the collectives package in a folder of its own", () => {
  let folder = "";

  before("pack and install", () => {
    folder = mkdtempSync(join(tmpdir(), "backplane-packing-"));
    const files = ["packages/core", "packages/backend-cpu", "packages/collectives"].map((path) =>
      pack(path, folder),
    );
    install(folder, files);
  });

  after(() => rmSync(folder, { recursive: true, force: true }));

  const run = (environment: Readonly<Record<string, string>>) =>
    spawnSync(process.execPath, ["--input-type=module", "-e", example], {
      ...{ cwd: folder, encoding: "utf8", env: { PATH: process.env.PATH, ...environment } },
    });

  it("depends on core alone, and brings the launcher", () => {
    const { dependencies, bin } = manifestOf(folder, "@backplane/collectives") as {
      readonly dependencies?: object;
      readonly bin?: unknown;
    };
    assert.deepEqual(Object.keys(dependencies ?? {}), ["@backplane/core"]);
    assert.deepEqual(bin, { "backplane-own-gpu": "./bin/backplane-own-gpu" });
    const launcher = join(folder, "node_modules/.bin/backplane-own-gpu");
    assert.match(spawnSync(launcher, { encoding: "utf8" }).stderr, /a program is missing/);
  });

  it("works alone without koffi and MPI, and says what to install if a launcher started it", () => {
    const { stdout, stderr } = run({});
    assert.equal(stdout, "1 1 2\n", stderr);
    for (const environment of [{ OMPI_COMM_WORLD_SIZE: "2" }, { PMI_RANK: "0", PMI_SIZE: "2" }] as const) {
      const failed = run(environment);
      assert.notEqual(failed.status, 0);
      assert.match(failed.stderr, /openCommunicator: mpi needs npm koffi, .*: npm install koffi/);
    }
  });
});
