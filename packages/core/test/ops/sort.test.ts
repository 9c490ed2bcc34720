import { costOf, type SortArguments } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve } from "../support/resolve.js";

const plain: SortArguments = { shape: [2, 3, 4], input: place(1), values: place(2), indices: place(3) };

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("sort", { ...plain, ...change } as SortArguments), argument);
}

describe("sort descriptor", () => {
  it("merges the axes before and after its own, which is the last by default", () => {
    for (const [change, extents] of [
      [{}, [6, 4, 1]],
      [{ axis: -2 }, [2, 3, 4]],
      [{ axis: 0 }, [1, 2, 12]],
    ] as const) {
      const { outer, length, inner } = problemOf("sort", { ...plain, ...change });
      assert.deepEqual<readonly number[]>([outer, length, inner], extents);
    }
  });

  it("keeps the first count elements of each line, and all by default", () => {
    assert.equal(problemOf("sort", plain).count, 4);
    const { count, values, indices } = problemOf("sort", { ...plain, count: 3, dtype: "f16" });
    assert.deepEqual([count, values!.byteLength, indices!.byteLength], [3, 36, 72]);
    assert.deepEqual(costOf("sort", plain), { flops: 48, bytes: 288 });
  });

  it("takes either of its outputs alone", () => {
    const { indices: _, ...values } = plain;
    assert.isUndefined(problemOf("sort", values).indices);
    const { values: _none, ...indices } = plain;
    assert.isUndefined(problemOf("sort", indices).values);
  });

  it("refuses bad types, shapes, axes, counts, and outputs over each other or the input", () => {
    refuses({ dtype: "u8" }, "dtype");
    refuses({ shape: [] }, "axis");
    refuses({ axis: 3 }, "axis");
    refuses({ descending: 1 }, "descending");
    refuses({ count: 5 }, "count");
    refuses({ shape: [2 ** 31 + 1] }, "shape[0]");
    refuses({ values: place(1) }, "values");
    refuses({ indices: place(1) }, "indices");
    refuses({ indices: place(2) }, "indices");
  });

  it("has nothing to do for no results", () => {
    for (const change of [{ shape: [0] }, { shape: [3, 0] }, { shape: [0, 3] }, { count: 0 }])
      assert.isUndefined(resolve("sort", { ...plain, ...change }).problem);
  });
});
