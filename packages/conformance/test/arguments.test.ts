import { assert } from "chai";
import { parseArguments, UsageError, usage } from "#src/cli/arguments.js";
import { main } from "#src/cli/main.js";
import { replayCommand } from "#src/cli/text.js";
import { lawId, laws, suiteVersion } from "#src/index.js";
import { backendModule } from "./support/command.js";

/** A terminal, or a file, that keeps what is written to it. */
class Paper {
  readonly isTTY: boolean;
  readonly columns = 100;
  text = "";

  constructor(isTTY = false) {
    this.isTTY = isTTY;
  }

  write(text: string): void {
    this.text += text;
  }
}

async function run(args: readonly string[], output: Paper = new Paper()) {
  const errors = new Paper();
  const code = await main(args, { output, errors, signal: new AbortController().signal });
  return { code, output: output.text, errors: errors.text };
}

describe("The command line", () => {
  it("is understood", () => {
    const args = [
      ...["./mine.js", "--ops", "gemm,conv2d", "--ops", "unary", "--dtype", "f16", "--law", "exact"],
      ...["--seed=-7", "--runs", "3", "--mode", "quick", "--time-budget", "1.5m", "--grade", "tight"],
      ...["--patience", "20s"],
      ...["--export", "all", "--config", "a,b", "--json", "x.json", "--diff", "old.json"],
    ];
    assert.deepEqual(parseArguments(args), {
      ...{ action: "run", module: "./mine.js", exportName: "all", configurations: ["a", "b"] },
      options: {
        ...{ operations: ["gemm", "conv2d", "unary"], dtypes: ["f16"], law: "exact", mode: "quick" },
        ...{ grade: "tight", seed: -7, runs: 3, timeBudget: 90_000, patience: 20_000 },
      },
      ...{ files: { json: "x.json" }, earlier: "old.json" },
    });
    const replay = { law: lawId(laws[0]!), seed: 3, path: "1:0" };
    assert.deepEqual(parseArguments(["m.js", "--replay", JSON.stringify(replay)]).options, { replay });
    for (const [text, milliseconds] of [
      ["90", 90_000],
      ["250ms", 250],
      ["2h", 7_200_000],
    ] as const)
      assert.equal(parseArguments(["m.js", "--time-budget", text]).options.timeBudget, milliseconds);
  });

  for (const [args, message] of [
    [["m.js", "--nonsense"], /--nonsense/],
    [["m.js", "other.js"], /one module at a time/],
    [["m.js", "--ops", "gem"], /--ops is "gem"; allowed: gemm, batchedGemm/],
    [["m.js", "--dtype", "f64"], /--dtype is "f64"; allowed: f32, f16/],
    [["m.js", "--mode", "fast"], /--mode.*"fast".*quick, default, soak/],
    [["m.js", "--grade", "loose"], /--grade.*must, tight/],
    [["m.js", "--seed", "one"], /--seed is "one"; allowed: whole numbers/],
    [["m.js", "--runs", "0"], /--runs is 0; allowed: whole numbers from 1/],
    [["m.js", "--runs", "2.5"], /--runs is "2\.5"/],
    [["m.js", "--time-budget", "soon"], /--time-budget is "soon"; allowed: 90, 90s/],
    [["m.js", "--time-budget", "0"], /--time-budget is 0/],
    [["m.js", "--patience", "long"], /--patience is "long"; allowed: 90, 90s/],
    [["m.js", "--patience", "0"], /--patience is 0; allowed: whole numbers from 1/],
    [["m.js", "--law", "no such law"], /at least one law/],
    [["m.js", "--replay", "{law: 1}"], /--replay is .*JSON/],
    [["m.js", "--replay", '{"law":"gemm f32: nonsense","seed":1}'], /is exact on whole numbers/],
    [["m.js", "--replay", '{"law":"nonsense","seed":1}'], /laws on gemm f32, gemm f16/],
    [["m.js", "--replay", '{"law":"gemm f32: is exact on whole numbers"}'], /--replay is .*allowed: objects/],
    [["m.js", "--replay", '{"law":"a","seed":1}', "--seed", "2"], /--seed do not go with it/],
  ] as const)
    it(`is refused where it makes no sense: ${args.slice(1).join(" ")}`, () => {
      assert.throws(() => parseArguments(args), UsageError, message);
    });

  it("answers --help, --version and --list without a backend", async () => {
    assert.deepEqual(await run(["--help"]), { code: 0, output: usage, errors: "" });
    for (const option of [
      "--ops",
      "--dtype",
      "--law",
      "--seed",
      "--replay",
      "--runs",
      "--mode",
      "--time-budget",
    ])
      assert.include(usage, option);
    assert.deepEqual(await run(["--version"]), { code: 0, output: `${suiteVersion}\n`, errors: "" });
    const listed = await run(["--list", "--ops", "gemm", "--dtype", "f16"]);
    const names = listed.output.trim().split("\n");
    assert.include(names, "gemm f16: is exact on whole numbers");
    assert.isTrue(names.every((name) => name.includes("f16")));
  });

  it("tries again what it prints, whatever is in the names", () => {
    const command = {
      module: "./my backend.js",
      exportName: undefined,
      configuration: "it's",
      grade: "tight",
    };
    const line = replayCommand({ law: "gemm f32: B^T A^T isn't", seed: 1 }, command);
    assert.equal(
      line,
      "npx @backplane/conformance './my backend.js' --config 'it'\\''s' --grade tight " +
        `--replay '{"law":"gemm f32: B^T A^T isn'\\''t","seed":1}'`,
    );
  });
});

describe("The progress of the command line program", () => {
  const little = ["--ops", "unary,binary", "--dtype", "f32", "--mode", "quick", "--law", "bound"];

  it("is one line that is drawn anew on a terminal, and removed at the end", async () => {
    const { code, output } = await run([backendModule("healthy"), ...little], new Paper(true));
    assert.equal(code, 0, output);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what terminals take for "clear this line".
    const drawn = output.split(/\r\x1b\[2K/);
    assert.isAbove(drawn.length, 2);
    assert.match(drawn[1]!, /^█*░* \d+\/\d+ {2}unary f32: /);
    assert.isTrue(drawn.slice(1, -1).every((line) => line.length < 100 && !line.includes("\n")));
    assert.notMatch(drawn.at(-1)!, /[█░]/);
  });

  it("is a line for each topic elsewhere", async () => {
    const { output } = await run([backendModule("healthy"), ...little]);
    assert.match(output, /^unary +\d+ kept \(\d+\.\d s\)$/m);
    assert.match(output, /^binary +\d+ kept \(\d+\.\d s\)$/m);
    assert.notMatch(output, /[█░\r]/);
  });
});
