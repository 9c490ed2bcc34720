import { costOf, type ScanArguments, scanKinds } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve } from "../support/resolve.js";

const plain: ScanArguments = { kind: "sum", shape: [2, 3, 4], input: place(1), output: place(2) };

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("scan", { ...plain, ...change }), argument);
}

describe("scan descriptor", () => {
  it("merges the axes before and after its own, which is the last by default", () => {
    for (const [change, extents] of [
      [{}, [6, 4, 1]],
      [{ axis: -2 }, [2, 3, 4]],
      [{ axis: 0 }, [1, 2, 12]],
    ] as const) {
      const { outer, length, inner } = problemOf("scan", { ...plain, ...change });
      assert.deepEqual<readonly number[]>([outer, length, inner], extents);
    }
  });

  it("takes all elements, from the first on, by default", () => {
    const { exclusive, reverse } = problemOf("scan", plain);
    assert.deepEqual([exclusive, reverse], [false, false]);
    assert.deepEqual(costOf("scan", { ...plain, dtype: "f16" }), { flops: 24, bytes: 96 });
  });

  it("refuses bad kinds, types, shapes, axes and flags", () => {
    refuses({ kind: "mean" }, "kind");
    refuses({ dtype: "u8" }, "dtype");
    refuses({ shape: [] }, "axis");
    refuses({ axis: 3 }, "axis");
    refuses({ exclusive: 1 }, "exclusive");
    refuses({ reverse: "yes" }, "reverse");
    refuses({ output: place(1) }, "output");
    assert.deepEqual(scanKinds, ["sum", "prod", "max", "min"]);
  });

  it("has nothing to do for no elements", () => {
    for (const shape of [[0], [3, 0], [0, 3]])
      assert.isUndefined(resolve("scan", { ...plain, shape }).problem);
  });
});
