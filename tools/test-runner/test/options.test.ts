import { assert } from "chai";
import { parseOptions, USAGE, UsageError } from "#src/options.js";

describe("test runner options", () => {
  it("runs everything when nothing is asked for", () => {
    assert.deepEqual(parseOptions([]), {
      help: false,
      only: undefined,
      grep: undefined,
      adapter: undefined,
    });
  });

  it('ignores the "--" that pnpm passes on', () => {
    assert.equal(parseOptions(["--", "--only", "node", "--grep", "gemm"]).grep, "gemm");
  });

  it("takes lavapipe for the Node.js part only", () => {
    assert.equal(parseOptions(["--only", "node", "--adapter", "lavapipe"]).adapter, "lavapipe");
    for (const rest of [[], ["--only", "browser"]])
      assert.throws(() => parseOptions(["--adapter", "lavapipe", ...rest]), UsageError, "needs --only node");
  });

  it("explains itself", () => {
    assert.isTrue(parseOptions(["--help"]).help);
    for (const option of ["only", "grep", "adapter", "help"]) assert.include(USAGE, `--${option}`);
  });

  it("refuses what it does not know", () => {
    assert.throws(() => parseOptions(["--only", "deno"]), UsageError, 'not "deno"');
    assert.throws(() => parseOptions(["--adapter", "radeon"]), UsageError, 'not "radeon"');
    assert.throws(() => parseOptions(["--fast"]), UsageError, "usage:");
  });
});
