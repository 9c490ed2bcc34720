import { assert } from "chai";
import { isChosen, tagsOf } from "#src/tags.js";

describe("tags of test files", () => {
  it("stand in the first line", () => {
    assert.deepEqual(tagsOf("// Tags: kernels, long\n", "a.test.ts"), ["kernels", "long"]);
    assert.deepEqual(tagsOf('import { assert } from "chai";\n// Tags: long\n', "a.test.ts"), []);
    assert.deepEqual(tagsOf("", "a.test.ts"), []);
  });

  it("are refused in another form, and where they are unknown", () => {
    for (const line of [
      "// tags: long",
      "// Tag: long",
      "/* Tags: long */",
      "// Tags long",
      "//Tags: long proof",
    ])
      assert.throws(() => tagsOf(`${line}\n`, "a.test.ts"), 'should read "// Tags: NAME, NAME"');
    assert.throws(
      () => tagsOf("// Tags: long, slow\n", "a.test.ts"),
      'a.test.ts: unknown tag "slow"; there are long',
    );
  });

  it("choose files", () => {
    const all = { tag: undefined, without: [] };
    assert.isTrue(isChosen([], all));
    assert.isTrue(isChosen(["long"], all));
    assert.isTrue(isChosen(["long"], { tag: ["long", "proof"], without: [] }));
    assert.isFalse(isChosen(["kernels"], { tag: ["long", "proof"], without: [] }));
    assert.isFalse(isChosen([], { tag: ["long"], without: [] }));
    assert.isFalse(isChosen(["long", "kernels"], { tag: ["long"], without: ["kernels"] }));
    assert.isTrue(isChosen(["long"], { tag: undefined, without: ["kernels"] }));
  });
});
