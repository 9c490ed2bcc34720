import { assert } from "chai";
import { parseOptions, USAGE, UsageError } from "#src/options.js";
import { tagNames } from "#src/tags.js";

describe("test runner options", () => {
  it("runs everything when nothing is asked for", () => {
    assert.deepEqual(parseOptions([]), {
      help: false,
      built: false,
      all: false,
      record: false,
      only: undefined,
      tag: undefined,
      without: [],
      grep: undefined,
      adapter: undefined,
    });
  });

  it('ignores the "--" that pnpm passes on', () => {
    assert.equal(parseOptions(["--", "--only", "node", "--grep", "gemm"]).grep, "gemm");
  });

  it("takes any number of tags", () => {
    const { tag, without } = parseOptions(["--without", "proof", "--tag", "kernels", "--without", "engines"]);
    assert.deepEqual({ tag, without }, { tag: ["kernels"], without: ["proof", "engines"] });
  });

  it("takes lavapipe for the Node.js part only", () => {
    assert.equal(parseOptions(["--only", "node", "--adapter", "lavapipe"]).adapter, "lavapipe");
    for (const rest of [[], ["--only", "browser"]])
      assert.throws(() => parseOptions(["--adapter", "lavapipe", ...rest]), UsageError, "needs --only node");
  });

  it("records whole files only", () => {
    assert.isTrue(parseOptions(["--record", "--tag", "pure"]).record);
    assert.throws(() => parseOptions(["--record", "--grep", "gemm"]), UsageError, "without --grep");
  });

  it("explains itself", () => {
    assert.isTrue(parseOptions(["--help"]).help);
    for (const option of ["built", "all", "record", "only", "tag", "without", "grep", "adapter", "help"])
      assert.include(USAGE, `--${option}`);
    for (const tag of tagNames) assert.include(USAGE, `  ${tag} `);
  });

  it("refuses what it does not know", () => {
    assert.throws(() => parseOptions(["--grep", "("]), UsageError, "Unterminated group\nusage:");
    assert.throws(() => parseOptions(["--only", "deno"]), UsageError, 'not "deno"');
    assert.throws(() => parseOptions(["--adapter", "radeon"]), UsageError, 'not "radeon"');
    for (const option of ["--tag", "--without"])
      assert.throws(() => parseOptions([option, "slow"]), UsageError, `${option} is long or proof`);
    assert.throws(() => parseOptions(["--fast"]), UsageError, "usage:");
  });
});
