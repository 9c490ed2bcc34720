// Tags: long
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { mpiNames, testMpi, type UnpackedMpi } from "@backplane/debian";
import { assert } from "chai";
import { mpirun } from "./mpirun.js";

interface Report {
  readonly rank: number;
  readonly size: number;
  readonly localRank: number;
  readonly engine: string;
  readonly live: number;
  readonly laws: readonly string[];
}

function reports(output: string): Report[] {
  const lines = output.split("\n").filter((line) => line.startsWith("{"));
  return lines.map((line): Report => JSON.parse(line)).sort((a, b) => a.rank - b.rank);
}

describe("laws of collectives", () => {
  for (const name of mpiNames)
    describe(`on ${name}`, () => {
      let mpi: UnpackedMpi;
      before(async function () {
        mpi = await testMpi(name, () => this.skip());
      });

      for (const ranks of [1, 2, 4])
        it(`hold with ${ranks} ${ranks === 1 ? "rank" : "ranks"}`, async () => {
          const { code, output, errors } = await mpirun(mpi, ranks, "laws").ended;
          assert.equal(code, 0, errors);
          const found = reports(output);
          assert.deepEqual(
            found.map(({ rank, size, localRank, live }) => ({ rank, size, localRank, live })),
            Array.from({ length: ranks }, (_, rank) => ({ rank, size: ranks, localRank: rank, live: 0 })),
          );
          for (const { engine } of found)
            assert.match(engine, { openmpi: /^Open MPI v4/, mpich: /^MPICH/ }[name]);
        });
    });

  it("hold for a program without MPI, as a communicator of one", () => {
    const path = fileURLToPath(new URL("./programs/laws.js", import.meta.url));
    const { status, stdout, stderr } = spawnSync(process.execPath, [path], { encoding: "utf8" });
    assert.equal(status, 0, stderr);
    const [{ rank, size, engine, live }] = reports(stdout) as [Report];
    assert.deepEqual({ rank, size, engine, live }, { rank: 0, size: 1, engine: "none", live: 0 });
  });
});
