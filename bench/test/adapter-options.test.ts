import { expect } from "chai";
import { parseOptions } from "#src/adapter/options.js";

describe("options of the program that puts an adapter before the laws", () => {
  it("have defaults, and name parts and operations", () => {
    expect(parseOptions([])).to.deep.equal({
      ...{ only: [], operations: undefined, jobs: 1, mode: "default", seed: 1, json: undefined },
      ...{ list: false, help: false },
    });
    expect(parseOptions(["--only", "tier", "--ops", "reduce,unary", "--seed", "3"])).to.deep.include({
      ...{ only: ["tier"], operations: ["reduce", "unary"], seed: 3 },
    });
  });

  it("are refused with what is allowed", () => {
    const refused: readonly [readonly string[], RegExp][] = [
      [["--jobs", "0"], /^--jobs is 0; allowed: 1 to 64$/],
      [["--seed", "x"], /^--seed is x; allowed: whole numbers$/],
      [["--mode", "soak"], /^--mode is soak; allowed: quick, default$/],
      [["--only", "nothing"], /^--only nothing is in no name; allowed: tier baseline, /],
      [["--ops", "hypot"], /^--ops hypot is unknown; allowed: gemm, /],
      [["--frist"], /--frist/],
    ];
    for (const [args, message] of refused) expect(parseOptions(args)).to.match(message);
  });
});
