// Tags: pure
import { expect } from "chai";
import { UsageError } from "#src/command-line.js";
import { parseSpeedOptions } from "#src/speed-options.js";

describe("the options of the measurement of speed", () => {
  it("are a small model on the GPU if there are none", () => {
    const { shape, bits, dtype, backend, help } = parseSpeedOptions([]);
    expect([shape.layers, bits, dtype, backend, help]).to.deep.equal([5, undefined, "f32", "webgpu", false]);
  });

  it("name a shape, its weights and how much is written", () => {
    const words =
      "--shape stories110M --weights q8 --dtype f16 --backend cpu --prompt 3 --tokens 4 --rounds 5";
    const { shape, bits, dtype, backend, prompt, tokens, rounds } = parseSpeedOptions(words.split(" "));
    expect([shape.layers, bits, dtype, backend]).to.deep.equal([12, 8, "f16", "cpu"]);
    expect([prompt, tokens, rounds]).to.deep.equal([3, 4, 5]);
  });

  it("round nothing unless they say so", () => {
    const options = "--shape stories110M --weights q4 --round-inputs".split(" ");
    expect(parseSpeedOptions(options).mayRoundInputs).to.equal(true);
    expect(parseSpeedOptions(options.slice(0, -1)).mayRoundInputs).to.equal(false);
  });

  const refused: Readonly<Record<string, RegExp>> = {
    "--bakend cpu": /--bakend/,
    "--shape stories": /--shape is "stories"; allowed: stories260K, stories110M/,
    "--weights q5": /--weights is "q5"; allowed: dense, q8, q4/,
    "--weights q8": /rows of 64 and 172 do not fill; allowed for stories260K: dense/,
    "--dtype f64": /--dtype is "f64"; allowed: f32, f16/,
    "--backend auto": /--backend is "auto"; allowed: webgpu, cpu/,
    "--tier fast": /--tier is "fast"; allowed: baseline, subgroups/,
    "--backend cpu --tier baseline": /--tier does not go with --backend cpu/,
    "--round-inputs": /--round-inputs does not go with --weights dense/,
    "--tokens 1": /--tokens is "1"; allowed: whole numbers from 2/,
    "--rounds many": /--rounds is "many"; allowed: whole numbers/,
  };
  for (const [words, message] of Object.entries(refused))
    it(`are refused by name: ${words}`, () => {
      expect(() => parseSpeedOptions(words.split(" "))).to.throw(UsageError, message);
    });
});
