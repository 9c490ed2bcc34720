import { assert } from "chai";
import { parseOptions } from "#src/options.js";
import { testParts } from "#src/parts.js";
import { browserEntries, nodeTests, type TestFile, workspacePackages } from "#src/workspace.js";

describe("parts of a run", () => {
  const partsOf = (...args: string[]) => {
    const machine = {
      description: "",
      isKnown: true,
      env: {},
      launch: () => Promise.reject(new Error("nothing runs here")),
    };
    return testParts(parseOptions(args), machine, "");
  };
  const filesOf = (...args: string[]) => partsOf(...args).flatMap(({ files }) => files);
  const compiled = (files: readonly { readonly compiled: string }[]) => files.map((file) => file.compiled);
  const packages = workspacePackages().map(({ path }) => path);

  it("have every file of the workspace, once", () => {
    const [node, browser] = [packages.flatMap(nodeTests), packages.flatMap(browserEntries)];
    assert.sameMembers(compiled(filesOf()), compiled([...node, ...browser]));
    assert.sameMembers(compiled(filesOf("--only", "node")), compiled(node));
    assert.sameMembers(compiled(filesOf("--only", "browser")), compiled(browser));
  });

  it("are what their tags choose, in Node.js and in browsers", () => {
    const long = filesOf("--tag", "long");
    const others = filesOf("--without", "long");
    assert.isTrue(long.every(({ tags }) => tags.includes("long")));
    assert.sameMembers(compiled([...long, ...others]), compiled(filesOf()));
    for (const only of ["node", "browser"]) assert.isNotEmpty(filesOf("--tag", "long", "--only", only));
  });

  it("lack the files that need not run, and are none where that is all of them", () => {
    const machine = { description: "", isKnown: true, env: {}, launch: () => Promise.reject(new Error()) };
    const without = (isLeftOut: (file: TestFile) => boolean) =>
      testParts(parseOptions([]), machine, "", isLeftOut);
    const isPure = ({ tags }: TestFile) => tags.includes("pure");
    const rest = without(isPure).flatMap(({ files }) => files);
    assert.sameMembers(compiled(rest), compiled(filesOf("--without", "pure")));
    assert.isBelow(rest.length, filesOf().length);
    assert.isEmpty(without(() => true));
  });

  it("begin with those that take long, each alone", () => {
    const parts = partsOf();
    const count = parts.findIndex(({ isLong }) => !isLong);
    assert.isAbove(count, 0);
    for (const [i, { files, isLong }] of parts.entries()) {
      assert.equal(isLong, i < count);
      assert.equal(
        files.some(({ tags }) => tags.includes("long")),
        isLong,
      );
      if (isLong) assert.lengthOf(files, 1);
      else assert.isAtMost(files.length, 8);
    }
  });

  it("are of one package each", () => {
    for (const { files } of partsOf()) {
      const folders = files.map((file) => /^(.*?)\/dist-test\//.exec(file.compiled)![1]);
      assert.lengthOf(new Set(folders), 1);
    }
  });
});
