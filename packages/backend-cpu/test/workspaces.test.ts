// Tags: kernels, pure
import { assert } from "chai";
import type { Heap } from "#src/heap.js";
import { Workspaces } from "#src/workspaces.js";

describe("workspaces", () => {
  it("hold no more than a few times the largest of problems that grow", () => {
    let held = 0;
    const heap = {
      allocate: (bytes: number) => {
        held += bytes;
        return { address: 0, bytes };
      },
      release: ({ bytes }: { readonly bytes: number }) => {
        held -= bytes;
      },
    };
    const workspaces = new Workspaces(heap as unknown as Heap);
    const largest = 10_000;
    for (let bytes = 1; bytes <= largest; bytes++) {
      assert.isAtLeast(workspaces.take(bytes).bytes, bytes);
      workspaces.reuse();
    }
    assert.isAtMost(held, 4 * largest);
    workspaces.release();
    assert.equal(held, 0);
  });
});
