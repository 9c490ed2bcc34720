// Runs on each of three ranks or more. Rank 1 is at fault; in the end it does as the argument says.
import assert from "node:assert/strict";
import { createCpuBackend } from "@backplane/backend-cpu";
import { BackendError, download, upload } from "@backplane/core";
import { CommunicationError, type CommunicationErrorCode, openCommunicator } from "#src/index.js";

const [ending, mpi] = process.argv.slice(2) as ["die" | "stay away" | "open", string?];
const backend = createCpuBackend({ threads: 0 });
await backend.init();
try {
  const communicator = await openCommunicator({
    ...(mpi === undefined ? {} : { mpi }),
    timeoutSeconds: ending === "stay away" ? 1 : 300,
  });
  const { rank, size } = communicator;
  const atFault = rank === 1;

  const untouched = [5, 6, 7, 8];
  const output = upload(backend, Float32Array.from(untouched));
  const input = upload(backend, Float32Array.from({ length: 4 * size }));
  const assertUntouched = async () =>
    assert.deepEqual([...(await download(backend, output, Float32Array, 4))], untouched);

  /** Expects another error on rank 1 than on the others, or the same. */
  const fails = async (
    call: () => Promise<unknown>,
    code: CommunicationErrorCode,
    message: RegExp,
    own?: { readonly code: string; readonly message: RegExp },
  ) => {
    const error = await call().then(
      () => assert.fail("nothing was thrown"),
      (thrown: unknown) => thrown as CommunicationError | BackendError,
    );
    if (atFault && own !== undefined) {
      assert(error instanceof BackendError || error instanceof CommunicationError, String(error));
      assert.equal(error.code, own.code, error.message);
      assert.match(error.message, own.message);
    } else {
      assert(error instanceof CommunicationError, String(error));
      assert.equal(error.code, code, error.message);
      assert.match(error.message, message);
    }
    await assertUntouched();
  };
  const mismatch = { code: "MISMATCH", message: /^\w+: .*rank 0.*; allowed: the same on all ranks$/ };

  await fails(
    () => communicator.allReduce(backend, { input, output, count: atFault ? 3 : 4 }),
    ...(["MISMATCH", /count 4 on this rank, and count 3 on rank 1; allowed/, mismatch] as const),
  );
  await fails(
    () => communicator.allReduce(backend, { input, output, count: 4, dtype: atFault ? "i32" : "f32" }),
    ...(["MISMATCH", /dtype f32 on this rank, and dtype i32 on rank 1/, mismatch] as const),
  );
  await fails(
    () => communicator.reduceScatter(backend, { input, output, count: 4, kind: atFault ? "max" : "mean" }),
    ...(["MISMATCH", /kind mean on this rank, and kind max on rank 1/, mismatch] as const),
  );
  await fails(
    () => communicator.broadcast(backend, { data: output, count: 4, root: atFault ? 1 : 0 }),
    ...(["MISMATCH", /root 0 on this rank, and root 1 on rank 1/, mismatch] as const),
  );
  await fails(
    () => (atFault ? communicator.barrier() : communicator.allGather(backend, { input, output, count: 1 })),
    ...(["MISMATCH", /allGather: is allGather on this rank, and barrier on rank 1/, mismatch] as const),
  );

  const failed = ["RANK_FAILED", /rank 1 could not read its operand, or has refused its arguments/] as const;
  await fails(
    () => communicator.allReduce(backend, { input, output, count: atFault ? 4 * size + 1 : 4 }),
    ...([
      ...failed,
      { code: "OUT_OF_BOUNDS", message: /^allReduce: (in|out)put needs bytes 0\.\.\d+ of/ },
    ] as const),
  );
  await fails(
    () =>
      communicator.allReduce(backend, { input, output, count: 4, dtype: (atFault ? "u32" : "f32") as "f32" }),
    ...([
      ...failed,
      { code: "INVALID_ARGUMENT", message: /allReduce: dtype is "u32".*; allowed: f32, f16, i32/ },
    ] as const),
  );
  await fails(
    () => communicator.allGather(backend, { input, output: atFault ? output : input, count: 4 }),
    ...([...failed, { code: "OUT_OF_BOUNDS", message: /^allGather: output needs bytes/ }] as const),
  );
  const freed = backend.alloc(16);
  backend.free(freed);
  await fails(
    () => communicator.broadcast(backend, { data: atFault ? freed : output, count: 4, root: 1 }),
    ...([...failed, { code: "INVALID_HANDLE", message: /^broadcast: data \d+ is not live/ }] as const),
  );

  if (rank <= 1) {
    const [from, to] = [0, 1];
    await fails(
      () =>
        rank === from
          ? communicator.send(backend, { input, count: 4, to })
          : communicator.receive(backend, { output, count: 3, from }),
      ...([
        "MISMATCH",
        /send: has 4 elements of type f32 on this rank, while rank 1 receives 3 of type f32/,
      ] as const),
      { code: "MISMATCH", message: /receive: has 3 elements of type f32 on this rank, while rank 0 sends 4/ },
    );
    await fails(
      () =>
        rank === from
          ? communicator.send(backend, { input: freed, count: 4, to }).catch((error: BackendError) => {
              throw new CommunicationError("RANK_FAILED", "send", error.code);
            })
          : communicator.receive(backend, { output, count: 4, from }),
      ...(["RANK_FAILED", /send: INVALID_HANDLE/] as const),
      { code: "RANK_FAILED", message: /receive: rank 0 could not read what it sends/ },
    );
  }
  for (const peer of [rank, size, -1, 0.5])
    await assert.rejects(communicator.send(backend, { input, count: 1, to: peer }), {
      code: "INVALID_ARGUMENT",
    });
  await fails(
    () => communicator.split({ color: atFault ? -1 : 0 }),
    ...([...failed, { code: "INVALID_ARGUMENT", message: /^split: color/ }] as const),
  );
  // Refused before the operands are looked at, on all ranks alike.
  for (const call of ["allGather", "reduceScatter"] as const)
    await assert.rejects(communicator[call](backend, { input, output, count: 2 ** 28 }), {
      code: "INVALID_ARGUMENT",
      message: /count is 268435456, which is \d+ bytes on all ranks; allowed: at most 2\^31 - 1 bytes/,
    });

  // All that did no harm.
  const sum = upload(backend, Int32Array.of(rank));
  await communicator.allReduce(backend, { input: sum, count: 1, dtype: "i32" });
  assert.equal((await download(backend, sum, Int32Array, 1))[0], (size * (size - 1)) / 2);

  const group = await communicator.split({ color: 0 });
  if (atFault) {
    if (ending === "die") process.kill(process.pid, "SIGKILL");
    // The test ends this process.
    setInterval(() => {}, 1e6);
    await new Promise(() => {});
  }
  const lost = {
    // A survivor that is quicker may have ended meanwhile, too.
    die: [
      "RANK_LOST",
      /allReduce: (rank 0 .*)?rank 1 \(process \d+\)(, rank 2 .*)? ended without dispose\(\)/,
    ],
    "stay away": ["TIMED_OUT", /allReduce: waited 1 s for other ranks/],
    open: ["DISPOSED", /./],
  }[ending] as [CommunicationErrorCode, RegExp];
  const start = performance.now();
  await fails(() => communicator.allReduce(backend, { input, output, count: 4 }), ...lost);
  await assert.rejects(communicator.barrier(), { code: lost[0], message: /^barrier: / });
  await assert.rejects(group!.barrier(), { code: lost[0] });
  await group!.dispose();
  await communicator.dispose();
  console.log(JSON.stringify({ rank, code: lost[0], seconds: (performance.now() - start) / 1000 }));
} catch (error) {
  if (ending !== "open") throw error;
  const { code, message } = error as BackendError;
  console.log(JSON.stringify({ code, message }));
}
await backend.dispose();
