import { expect } from "chai";
import { help, parseOptions } from "#src/options.js";

describe("options of the benchmark", () => {
  it("have defaults that suit every machine", () => {
    const { size, configurations, rounds, milliseconds, table, sweep } = parseOptions([]);
    expect(configurations.map(({ name }) => name)).to.deep.equal(["default", "cpu"]);
    expect({ size, rounds, milliseconds, table, sweep }).to.deep.equal({
      ...{ size: "small", rounds: 5, milliseconds: 50, table: true, sweep: false },
    });
  });

  it("set up several configurations, and one more from a tier and toggles", () => {
    const args = ["--configuration", "unchecked", "--tier", "baseline", "--dawn-enable", "skip_validation"];
    const names = parseOptions(args).configurations.map(({ name }) => name);
    expect(names).to.deep.equal(["unchecked", "tier baseline, skip_validation"]);
  });

  it("name the library of cpu-blas, which is not timed without one", async () => {
    const [configuration] = parseOptions([
      "--configuration",
      "cpu-blas",
      "--blas",
      "/nowhere.so",
    ]).configurations;
    await using backend = configuration!.create(() => {});
    const error: unknown = await backend.init().catch((thrown: unknown) => thrown);
    expect(String(error)).to.match(/blas is \/nowhere\.so/);
  });

  it("leave the table out of a sweep unless asked for both", () => {
    expect(parseOptions(["--sweep"]).table).to.equal(false);
    expect(parseOptions(["--sweep", "--table"])).to.include({ sweep: true, table: true });
  });

  it("are refused with what is allowed", () => {
    const refused: readonly [readonly string[], string][] = [
      [["--size", "huge"], "--size is huge; allowed: small, large"],
      [["--configuration", "fast"], "--configuration is fast; allowed: default"],
      [["--tier", "high"], "--tier is high; allowed: baseline"],
      [["--rounds", "0"], "--rounds is 0; allowed: whole numbers above 0"],
      [["--rounds", "2.5"], "--rounds is 2.5; allowed: whole numbers above 0"],
      [["--milliseconds", "x"], "--milliseconds is x; allowed: numbers above 0"],
      [["--peak-f32=-1"], "--peak-f32 is -1; allowed: numbers above 0"],
      [["--frist"], "--frist"],
    ];
    for (const [args, message] of refused) expect(() => parseOptions(args), args.join(" ")).to.throw(message);
  });

  it("are all named in the help", () => {
    for (const name of [
      "size",
      "configuration",
      "tier",
      "dawn-enable",
      "blas",
      "only",
      "sweep",
      "anchor",
      "json",
    ])
      expect(help).to.include(`--${name} `);
  });
});
