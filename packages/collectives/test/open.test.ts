import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { createCpuBackend } from "@backplane/backend-cpu";
import { BackendError } from "@backplane/core";
import { assert } from "chai";
import { openCommunicator } from "#src/index.js";
import { launchOf } from "#src/launch.js";
import { familyOf } from "#src/mpi/interface.js";
import { openLibrary } from "#src/mpi/library.js";
import { isAlive, thisProcess } from "#src/mpi/neighbours.js";

async function errorOf(call: () => unknown): Promise<BackendError> {
  try {
    await call();
  } catch (error) {
    assert.instanceOf(error, BackendError);
    return error as BackendError;
  }
  return assert.fail("nothing was thrown");
}

describe("opening a communicator", () => {
  it("gives one of one rank without a launcher, or without MPI", async () => {
    assert.isUndefined(launchOf(process.env), "this test was started by mpirun");
    for (const options of [{}, { mpi: false as const }]) {
      const communicator = await openCommunicator(options);
      const { rank, size, localRank, engine } = communicator;
      assert.deepEqual({ rank, size, localRank, engine }, { rank: 0, size: 1, localRank: 0, engine: "none" });
      await communicator.dispose();
    }
  });

  it("names the call and the argument whose place is not one", async () => {
    const backend = createCpuBackend({ threads: 0 });
    await backend.init();
    const communicator = await openCommunicator();
    const [input, output] = [backend.alloc(16), backend.alloc(16)];
    for (const [call, code, message] of [
      [
        () => communicator.allReduce(backend, { input, count: 5 }),
        ...([
          "OUT_OF_BOUNDS",
          /^allReduce: input needs bytes 0\.\.20 of an allocation of 16 bytes$/,
        ] as const),
      ],
      [
        () => communicator.allGather(backend, { input, output: { handle: output, byteOffset: 4 }, count: 4 }),
        ...([
          "OUT_OF_BOUNDS",
          /^allGather: output needs bytes 4\.\.20 of an allocation of 16 bytes$/,
        ] as const),
      ],
      [
        () => communicator.broadcast(backend, { data: 5 as typeof input, count: 4 }),
        ...(["INVALID_HANDLE", /^broadcast: data is the number 5\b/] as const),
      ],
    ] as const) {
      const error = await errorOf(call);
      assert.equal(error.code, code);
      assert.match(error.message, message);
    }
    await backend.dispose();
    const gone = await errorOf(() => communicator.allReduce(backend, { input, count: 4 }));
    assert.match(gone.message, /^allReduce: the backend was disposed of/);
    await communicator.dispose();
  });

  it("refuses options that make no sense", async () => {
    for (const [options, argument] of [
      [{ mpi: "" }, "mpi"],
      [{ mpi: true }, "mpi"],
      [{ timeoutSeconds: 0 }, "timeoutSeconds"],
      [{ timeoutSeconds: Number.NaN }, "timeoutSeconds"],
      [{ timeoutSeconds: "5" }, "timeoutSeconds"],
      [{ timeout: 5 }, "timeout"],
    ] as const) {
      const error = await errorOf(() => openCommunicator(options as object));
      assert.equal(error.code, "INVALID_ARGUMENT");
      assert.equal(error.argument, argument);
    }
  });

  it("knows who started the process", () => {
    assert.isUndefined(launchOf({ PATH: "/bin" }));
    const cases = [
      [
        { OMPI_COMM_WORLD_SIZE: "4", PMIX_RANK: "1" },
        { family: "Open MPI", size: 4 },
      ],
      [
        { PMI_RANK: "0", PMI_SIZE: "3" },
        { family: "MPICH", size: 3 },
      ],
      [{ PMIX_RANK: "1" }, { family: "Open MPI", size: undefined }],
    ] as const;
    for (const [environment, expected] of cases) assert.deepEqual(launchOf(environment), expected);
  });

  it("knows binary interfaces by what libraries say of themselves, and no others", () => {
    const known = {
      "Open MPI": ["Open MPI v4.1.4, package: Debian OpenMPI", "Open MPI v5.0.7"],
      MPICH: [
        "MPICH Version: 4.0.2 MPICH Release date",
        "Intel(R) MPI Library 2021.13 for Linux* OS",
        "MVAPICH Version: 3.0",
        "CRAY MPICH version 8.1.27",
      ],
    };
    for (const [family, descriptions] of Object.entries(known))
      for (const description of descriptions) assert.equal(familyOf(description), family);
    for (const description of ["", "Microsoft MPI 10.1", "LAM/MPI 7", "Not Open MPI v4"])
      assert.isUndefined(familyOf(description));
  });

  it("says what is wrong with a library", async () => {
    const missing = await errorOf(() => openCommunicator({ mpi: "/nowhere/libmpi.so" }));
    assert.equal(missing.code, "UNSUPPORTED");
    assert.match(
      missing.message,
      /^openCommunicator: mpi is a library that cannot be used: \/nowhere\/libmpi\.so: /,
    );
    if (process.platform !== "linux") return;
    const other = await errorOf(() => openCommunicator({ mpi: "libm.so.6" }));
    assert.equal(other.code, "UNSUPPORTED");
    assert.match(other.message, /libm\.so\.6: it has no function MPI_Get_library_version/);
  });

  it("refuses to start MPI in a worker, whose environment libraries do not see", async () => {
    const source = `
      import("${import.meta.resolve("#src/index.js")}")
        .then(({ openCommunicator }) => openCommunicator({ mpi: "libm.so.6" }))
        .catch(({ code, message }) => require("node:worker_threads").parentPort.postMessage({ code, message }));`;
    const worker = new Worker(source, { eval: true });
    const [{ code, message }] = await once(worker, "message");
    assert.equal(code, "UNSUPPORTED");
    assert.match(message, /libm\.so\.6: MPI is for the main thread of a program, and this is a worker$/);
    await worker.terminate();
  });

  it("says what to install if the library of the launcher is missing", async function () {
    for (const [family, name] of [
      ["Open MPI", "openmpi-bin"],
      ["MPICH", "mpich"],
    ] as const) {
      let error: BackendError;
      try {
        openLibrary({ family });
        // It is installed here.
        this.skip();
      } catch (thrown) {
        error = thrown as BackendError;
      }
      assert.equal(error.code, "UNSUPPORTED");
      assert.include(
        error.message,
        `was started by the launcher of ${family}, whose library cannot be loaded; install`,
      );
      assert.include(error.message, `(Debian: ${name}), or pass the path of the library (`);
    }
  });

  it("sees whether a process lives, and not another one of the same number", () => {
    const mine = thisProcess();
    assert.isTrue(isAlive(mine));
    assert.isTrue(isAlive({ ...mine, started: "" }));
    if (mine.started !== "") assert.isFalse(isAlive({ ...mine, started: "1" }));
    for (const started of ["", "1"]) assert.isFalse(isAlive({ ...mine, pid: 2 ** 22 + 1, started }));
  });
});
