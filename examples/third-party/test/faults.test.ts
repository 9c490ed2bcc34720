import type { BackendError } from "@backplane/core";
import { assert } from "chai";
import { lazy } from "#src/index.js";

function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "none",
    (error: BackendError) => error.code,
  );
}

describe("a result of the lazy backend that cannot be computed", () => {
  const { exp } = Math;
  after(() => {
    Math.exp = exp;
  });

  it("rejects the next promise, reaches onError, and never comes out as made-up data", async () => {
    await using backend = lazy.create();
    await backend.init();
    const heard: string[] = [];
    const stop = backend.onError(({ code }) => heard.push(code));
    const [input, output, other] = [backend.alloc(8), backend.alloc(8), backend.alloc(8)];
    backend.unary({ kind: "silu", n: 2, input, output });
    backend.fill(other, 3, 2);
    Math.exp = () => {
      throw new RangeError("no room");
    };
    assert.equal(await codeOf(backend.synchronize()), "OUT_OF_MEMORY");
    Math.exp = exp;
    assert.deepEqual(heard, ["OUT_OF_MEMORY"]);

    // Told once; all else goes on, but the lost result does not come back.
    assert.equal(await codeOf(backend.synchronize()), "none");
    const numbers = new Float32Array(2);
    await backend.copyDtoH(numbers, other);
    assert.deepEqual([...numbers], [3, 3]);
    assert.equal(await codeOf(backend.copyDtoH(numbers, output)), "OUT_OF_MEMORY");
    assert.deepEqual([...numbers], [3, 3]);
    stop();
    assert.equal(await codeOf(backend.copyDtoH(numbers, output)), "OUT_OF_MEMORY");
    assert.lengthOf(heard, 2);

    backend.free(output);
    const again = backend.alloc(8);
    backend.unary({ kind: "silu", n: 2, input, output: again });
    await backend.copyDtoH(numbers, again);
    assert.deepEqual([...numbers], [0, 0]);
    for (const handle of [input, other, again]) backend.free(handle);
    assert.equal(backend.memory().reservedBytes, 0);
  });
});
