import { expect } from "chai";
import { parseOptions, UsageError } from "#src/options.js";

describe("parseOptions", () => {
  it("has defaults", () => {
    expect(parseOptions([])).to.deep.equal({
      backend: "swap",
      model: "mlp",
      seed: 1,
      epochs: 3,
      batch: 100,
      threads: undefined,
      stop: undefined,
      save: undefined,
      resume: undefined,
      svg: undefined,
      json: false,
      help: false,
    });
  });

  it("has more epochs for the larger model", () => {
    expect(parseOptions(["--model", "cnn"]).epochs).to.equal(5);
  });

  it("takes what follows a leading --, which some script runners pass on", () => {
    expect(parseOptions(["--", "--seed", "7"]).seed).to.equal(7);
  });

  it("reads every option", () => {
    const args =
      "--backend cpu --model cnn --seed 7 --epochs 0.5 --batch 64 --threads 0 --stop 9 --save a --resume b --svg c --json --help";
    expect(parseOptions(args.split(" "))).to.deep.equal({
      backend: "cpu",
      model: "cnn",
      seed: 7,
      epochs: 0.5,
      batch: 64,
      threads: 0,
      stop: 9,
      save: "a",
      resume: "b",
      svg: "c",
      json: true,
      help: true,
    });
  });

  const wrong: readonly (readonly [string, RegExp])[] = [
    ["--backend gpu", /--backend is "gpu"; allowed: cpu, webgpu, swap/],
    ["--backend", /--backend/],
    ["--model rnn", /--model is "rnn"; allowed: mlp, cnn/],
    ["--stop 0", /--stop is "0"/],
    ["--seed 1.5", /--seed is "1.5"/],
    ["--seed 4294967296", /--seed is "4294967296"/],
    ["--epochs 0", /--epochs is "0"/],
    ["--epochs much", /--epochs is "much"/],
    ["--batch 0", /--batch is "0"/],
    ["--threads 1e2", /--threads is "1e2"/],
    ["--fast", /--fast/],
    ["more", /more/],
  ];
  for (const [line, message] of wrong)
    it(`refuses ${line}`, () => {
      expect(() => parseOptions(line.split(" "))).to.throw(UsageError, message);
    });
});
