import { assert } from "chai";
import { CommunicationError } from "#src/errors.js";
import type { Mpi } from "#src/mpi/library.js";
import { Requests } from "#src/mpi/requests.js";

/** An MPI that completes a request at its third test, or reports an error then. */
function fakeMpi(code = 0): Mpi {
  const tests = new Map<bigint, number>();
  const call = {
    MPI_Test: (request: BigInt64Array, flag: Int32Array) => {
      const done = (tests.get(request[0]!) ?? 0) + 1;
      tests.set(request[0]!, done);
      flag[0] = done === 3 ? 1 : 0;
      return done === 3 ? code : 0;
    },
    MPI_Error_string: (_: number, text: Buffer, length: Int32Array) => {
      length[0] = text.write("out of luck");
      return 0;
    },
  };
  return { call, description: "a fake", path: "", constants: {} } as unknown as Mpi;
}

const eager = { operation: "allReduce", isPatient: false };
const patient = { operation: "barrier", isPatient: true };

function starts(number: bigint, code = 0): (request: BigInt64Array) => number {
  return (request) => {
    request[0] = number;
    return code;
  };
}

describe("requests", () => {
  it("resolve when MPI has completed them, in any order", async () => {
    const requests = new Requests(fakeMpi(), 10);
    await Promise.all([
      requests.start(starts(1n), [], patient),
      requests.start(starts(2n), [new Float32Array(1)], eager),
    ]);
    await requests.start(starts(3n), [], patient);
    assert.isFalse(requests.isBroken);
  });

  it("end with MPI, and call it no more", async () => {
    const requests = new Requests(fakeMpi(), 10);
    const pending = requests.start(starts(1n), [], patient).catch((e) => e);
    requests.end();
    assert.equal((await pending).code, "DISPOSED");
    const later = await requests.start(() => assert.fail("MPI is called"), [], eager).catch((e) => e);
    assert.equal(later.code, "DISPOSED");
  });

  it("fail after a call that does not wait and has failed", () => {
    const requests = new Requests(fakeMpi(), 10);
    requests.check(0, "split");
    assert.throws(() => requests.check(7, "split"), "split: MPI reports an error: out of luck");
    assert.isTrue(requests.isBroken);
  });

  it("fail with the words of MPI, and take all others with them", async () => {
    for (const requests of [new Requests(fakeMpi(7), 10), new Requests(fakeMpi(), 10)]) {
      const isAtStart =
        requests !== undefined && (await requests.start(starts(9n, 7), [], eager).catch((e) => e));
      assert.instanceOf(isAtStart, CommunicationError);
      assert.equal(isAtStart.message, "allReduce: MPI reports an error: out of luck");
      assert.isTrue(requests.isBroken);
    }
    const requests = new Requests(fakeMpi(7), 10);
    const all = await Promise.allSettled([
      requests.start(starts(1n), [], eager),
      requests.start(starts(2n), [], patient),
    ]);
    const messages = all.map((result) => (result.status === "rejected" ? result.reason.message : "none"));
    assert.deepEqual(messages, [
      "allReduce: MPI reports an error: out of luck",
      "barrier: MPI reports an error: out of luck",
    ]);
    const later = await requests.start(() => assert.fail("MPI is called"), [], patient).catch((e) => e);
    assert.equal(later.code, "MPI_ERROR");
  });
});
