import { assert } from "chai";
import { parseOptions, UsageError } from "#src/options.js";

describe("test runner options", () => {
  it("runs everything when nothing is asked for", () => {
    assert.deepEqual(parseOptions([]), { only: undefined, grep: undefined, adapter: undefined });
  });

  it('ignores the "--" that pnpm passes on', () => {
    assert.equal(parseOptions(["--", "--only", "node", "--grep", "gemm"]).grep, "gemm");
  });

  it("refuses what it does not know", () => {
    assert.throws(() => parseOptions(["--only", "deno"]), UsageError, 'not "deno"');
    assert.throws(() => parseOptions(["--fast"]), UsageError, "usage:");
  });
});
