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

  it("refuse an unknown kind when they are made, and every use after dispose", async () => {
    const backend = createCpuBackend({ threads: 0 });
    await backend.init();
    const communicator = await openCommunicator({ mpi: false });
    const codeOf = (error: unknown) => (error as BackendError).code;
    try {
      new BucketReduction(communicator, backend, [4], { kind: "avg" as never });
      assert.fail("the kind was taken");
    } catch (error) {
      assert.deepInclude(error as BackendError, { code: "INVALID_ARGUMENT", argument: "kind" });
    }
    const array = backend.alloc(16);
    const reduction = new BucketReduction(communicator, backend, [4, 4], { bucketBytes: 16 });
    reduction.add(1, array);
    reduction.add(0, array);
    const finished = reduction.finish().then(() => "done", codeOf);
    reduction.dispose();
    reduction.dispose();
    assert.equal(await finished, "DISPOSED");
    assert.equal(await reduction.finish().then(() => "done", codeOf), "DISPOSED");
    assert.throws(() => reduction.add(0, array), "add: the reduction was disposed of");
    assert.equal(backend.memory().liveAllocations, 1);
    await communicator.dispose();
    await backend.dispose();
  });

  it("and collectives take slices as they are at the call", async () => {
    const backend = createCpuBackend({ threads: 0 });
    await backend.init();
    const communicator = await openCommunicator({ mpi: false });
    const [input, output] = [backend.alloc(8), backend.alloc(16)];
    backend.copyHtoD(input, Float32Array.of(1, 2));
    const slice = { handle: output, byteOffset: 0 };
    const reduced = communicator.allReduce(backend, { input, output: slice, count: 2 });
    slice.byteOffset = 8;
    await reduced;
    const reduction = new BucketReduction(communicator, backend, [1]);
    const one = { handle: input, byteOffset: 4 };
    reduction.add(0, one);
    backend.fill(input, 7, 2);
    one.byteOffset = 0;
    await reduction.finish();
    const [results, inputs] = [new Float32Array(4), new Float32Array(2)];
    await backend.copyDtoH(results, output);
    await backend.copyDtoH(inputs, input);
    assert.deepEqual([...results, ...inputs], [1, 2, 0, 0, 7, 2]);
    reduction.dispose();
    await communicator.dispose();
    await backend.dispose();
  });
});
