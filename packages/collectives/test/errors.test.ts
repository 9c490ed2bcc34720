import { mpi as inCache, mpiNames, testMpi, type UnpackedMpi } from "@backplane/debian";
import { assert } from "chai";
import { type Job, mpirun } from "./mpirun.js";

/** Hides from the launcher, which would end the others, that a rank has ended, and says with which code. */
const hidden = ["sh", "-c", '"$@"; echo "{\\"exit\\": $?}"; exec sleep 600', "sh"];

function lines(output: string): Record<string, unknown>[] {
  return output
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line): Record<string, unknown> => JSON.parse(line));
}

describe("errors between ranks", () => {
  for (const name of mpiNames)
    describe(`on ${name}`, () => {
      let mpi: UnpackedMpi;
      before(async function () {
        mpi = await testMpi(name, () => this.skip());
      });

      /** Runs until as many ranks have reported and ended well, or one badly, then ends what is left. */
      const survivors = async (ending: string, count: number) => {
        const job: Job = mpirun(mpi, count + 1, "errors", [ending], {
          through: hidden,
          onOutput: (output) => {
            const exits = lines(output).flatMap(({ exit }) => (exit === undefined ? [] : [exit]));
            const [well, killed] = [0, 137].map((code) => exits.filter((exit) => exit === code).length);
            if (well === count || well! + killed! < exits.length) job.child.kill("SIGTERM");
          },
        });
        const { output, errors } = await job.ended;
        const reports = lines(output).filter(({ code }) => code !== undefined);
        assert.lengthOf(reports, count, `${output}${errors}`);
        return reports;
      };

      it("tell all ranks of mismatches and of a rank that dies, and write nothing", async () => {
        for (const { code } of await survivors("die", 2)) assert.equal(code, "RANK_LOST");
      });

      it("do not wait for ever", async () => {
        const [{ code }] = (await survivors("stay away", 1)) as [Record<string, unknown>];
        assert.equal(code, "TIMED_OUT");
      });

      it("end the program, where the launcher sees a rank die", async () => {
        const { code } = await mpirun(mpi, 2, "errors", ["die"]).ended;
        assert.notEqual(code, 0);
      });
    });

  it("tell that launcher and library do not belong together", async function () {
    const [launcher, library] = [
      await testMpi("openmpi", () => this.skip()),
      await testMpi("mpich", () => this.skip()),
    ];
    const folders = [launcher, library].map(({ environment }) => environment.LD_LIBRARY_PATH);
    const { output, errors } = await mpirun(launcher, 2, "errors", ["open", inCache("mpich").library], {
      env: { LD_LIBRARY_PATH: folders.join(":") },
    }).ended;
    assert.lengthOf(lines(output), 2, errors);
    for (const { code, message } of lines(output)) {
      assert.equal(code, "UNSUPPORTED");
      assert.match(
        message as string,
        /^openCommunicator: mpi is MPICH Version.*, which knows of 1 process, while a launcher of Open MPI has started 2; allowed: library and launcher of the same MPI$/,
      );
    }
  });
});
