import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { testMpi } from "@backplane/debian";
import { assert } from "chai";
import { mpirun } from "./mpirun.js";

const script = fileURLToPath(new URL("../bin/backplane-own-gpu", import.meta.url));

describe("a GPU for each rank", () => {
  let folder = "";
  let nodes: string[] = [];
  before(function () {
    if (process.platform !== "linux" || spawnSync("unshare", ["--mount", "true"]).status !== 0) {
      console.warn(
        "A mount namespace cannot be made here: the launcher of one GPU for each rank is not tested",
      );
      this.skip();
    }
    folder = mkdtempSync(join(tmpdir(), "backplane-gpus-"));
    nodes = [0, 1, 2].map((gpu) => join(folder, `gpu${gpu}`));
    for (const [gpu, node] of nodes.entries()) writeFileSync(node, `gpu ${gpu}`);
  });
  after(() => {
    if (folder !== "") rmSync(folder, { recursive: true });
  });

  const run = (environment: Readonly<Record<string, string>>, ...program: string[]) =>
    spawnSync("sh", [script, ...program], {
      encoding: "utf8",
      env: { PATH: process.env.PATH, BACKPLANE_GPU_NODES: nodes.join(" "), ...environment },
    });

  it("is the only one that the program sees, by its rank on the machine, and the next one around", () => {
    for (const [environment, expected] of [
      [{ OMPI_COMM_WORLD_LOCAL_RANK: "0" }, "gpu 0"],
      [{ MPI_LOCALRANKID: "1" }, "gpu 1"],
      [{ SLURM_LOCALID: "2" }, "gpu 2"],
      [{ MPI_LOCALRANKID: "4" }, "gpu 1"],
    ] as const) {
      const { status, stdout, stderr } = run(environment, "cat", ...nodes);
      assert.equal(status, 0, stderr);
      assert.equal(stdout, expected);
    }
    // Nothing has changed for others.
    assert.equal(spawnSync("cat", nodes, { encoding: "utf8" }).stdout, "gpu 0gpu 1gpu 2");
  });

  it("keeps arguments and exit code, and changes nothing where there is one GPU", () => {
    const rank = { MPI_LOCALRANKID: "1" };
    const { status, stdout } = run(rank, "sh", "-c", 'printf "%s|" "$@"; exit 7', "sh", "a b", "", "c");
    assert.equal(status, 7);
    assert.equal(stdout, "a b||c|");
    assert.equal(run({ ...rank, BACKPLANE_GPU_NODES: nodes[2]! }, "cat", nodes[2]!).stdout, "gpu 2");
  });

  it("says what is missing", () => {
    const { status, stderr } = run({}, "true");
    assert.equal(status, 2);
    assert.match(stderr, /the launcher does not tell the number of the rank on this machine/);
    assert.match(run({ MPI_LOCALRANKID: "0" }).stderr, /a program is missing/);
  });

  // Without root each rank would have a user namespace of its own, between which MPICH shares no memory.
  it("is hidden from ranks of MPICH in one user namespace, which share memory", async function () {
    if (spawnSync("unshare", ["--user", "--map-root-user", "true"]).status !== 0) this.skip();
    const mpi = await testMpi("mpich", () => this.skip());
    const together = { ...mpi, command: "unshare", options: ["--user", "--map-root-user", mpi.command] };
    const env = { BACKPLANE_GPU_NODES: nodes.join(" ") };
    const { code, output, errors } = await mpirun(together, 2, "laws", [], {
      ...{ through: ["sh", script], env },
    }).ended;
    assert.equal(code, 0, errors);
    assert.lengthOf(output.match(/"engine":"MPICH/g) ?? [], 2);
  });
});
