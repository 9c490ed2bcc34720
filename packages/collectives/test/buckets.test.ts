import { createCpuBackend } from "@backplane/backend-cpu";
import { BackendError } from "@backplane/core";
import { assert } from "chai";
import { BucketReduction, openCommunicator } from "#src/index.js";

describe("buckets", () => {
  it("free what they have if there is no memory for all of them", async () => {
    const backend = createCpuBackend({ threads: 0 });
    await backend.init();
    const communicator = await openCommunicator({ mpi: false });
    const alloc = backend.alloc.bind(backend);
    let left = 2;
    backend.alloc = (bytes) => {
      if (left-- === 0) throw new BackendError("OUT_OF_MEMORY", "alloc: no memory is left");
      return alloc(bytes);
    };
    assert.throws(
      () => new BucketReduction(communicator, backend, [4, 4, 4], { bucketBytes: 16 }),
      "no memory",
    );
    assert.equal(backend.memory().liveAllocations, 0);
    await communicator.dispose();
    await backend.dispose();
  });
});
