import { expect } from "chai";
import { parseLanguageModelOptions } from "#src/language-model/options.js";

describe("the options of the language model", () => {
  it("are 4 bits in f16 on the GPU by default, and f32 on two threads with --cpu", () => {
    const gpu = parseLanguageModelOptions([]);
    expect([gpu.cpu, gpu.bits, gpu.dtype, gpu.shape]).to.deep.equal([false, 4, "f16", "stories110M"]);
    const cpu = parseLanguageModelOptions(["--cpu", "--weights", "q8", "--layers", "3"]);
    expect([cpu.cpu, cpu.bits, cpu.dtype, cpu.threads]).to.deep.equal([true, 8, "f32", 2]);
    expect(cpu.model.layers).to.equal(3);
  });

  for (const [args, message] of [
    [["--shape", "toString"], "--shape is toString; allowed: stories260K, "],
    [["--shape", "stories260K"], "--shape is stories260K, whose rows of 64 and 172 do not fill blocks of 32"],
    [["--weights", "q6"], "--weights is q6; allowed: q4, q8"],
    [["--dtype", "f64"], "--dtype is f64; allowed: f16, f32"],
    [["--cpu", "--dtype", "f16"], "--dtype is f16; allowed with --cpu: f32"],
    [["--cpu", "--captured"], "--captured does not go with --cpu"],
    [["--threads", "2"], "--threads goes with --cpu only"],
    [["--cpu", "--threads", "0"], "--threads is 0; allowed: whole numbers from 1 on"],
    [["--rounds", "1.5"], "--rounds is 1.5; allowed: whole numbers from 1 on"],
  ] as const)
    it(`refuse ${args.join(" ")}`, () => {
      expect(() => parseLanguageModelOptions(args)).to.throw(message);
    });
});
