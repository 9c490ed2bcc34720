import { assert } from "chai";
import { type CommandLine, parseCommandLine } from "#src/command-line.js";

describe("command line of the software adapter", () => {
  it("takes SwiftShader where nothing is asked for", () => {
    const expected: CommandLine = {
      adapter: "swiftshader",
      command: "node",
      args: ["script.js", "--adapter"],
    };
    assert.deepEqual(parseCommandLine(["--", "node", "script.js", "--adapter"]), expected);
    assert.deepEqual(parseCommandLine(["node", "script.js", "--adapter"]), expected);
  });

  it("takes the adapter that is asked for", () => {
    const { adapter, command, args } = parseCommandLine(["--adapter", "lavapipe", "--", "node", "--", "x"]);
    assert.deepEqual([adapter, command, args], ["lavapipe", "node", ["--", "x"]]);
  });

  it("refuses other adapters, and a line without a command", () => {
    assert.throws(() => parseCommandLine(["--adapter", "radeon", "--", "node"]), 'not "radeon"\nusage:');
    assert.throws(() => parseCommandLine(["--adapter"]), "--adapter is swiftshader or lavapipe");
    assert.throws(() => parseCommandLine(["--adapter", "lavapipe", "--"]), /^usage:/);
    assert.throws(() => parseCommandLine([]), /^usage:/);
    assert.throws(
      () => parseCommandLine(["--adaptor", "lavapipe", "--", "node"]),
      /^--adaptor is no option\nusage:/,
    );
  });
});
