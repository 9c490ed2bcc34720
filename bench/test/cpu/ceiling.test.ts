import { expect } from "chai";
import { bestInstruction, ceilingModule, type Instruction } from "#src/cpu/ceiling.js";

/** What the loop adds up to: lane 0 of twelve sums that start at 3, 4, ... 14. */
function expected(passes: number): number {
  let total = 0;
  for (let first = 3; first < 15; first++) {
    let sum = first;
    for (let i = 0; i < passes; i++) sum = sum * 0.999 + 0.001;
    total += sum;
  }
  return total;
}

describe("the ceiling of WebAssembly SIMD", () => {
  const instructions: readonly Instruction[] =
    bestInstruction() === "relaxed_madd" ? ["mul, add", "relaxed_madd"] : ["mul, add"];
  for (const instruction of instructions)
    it(`is a loop of ${instruction} that does compute its sums`, () => {
      const { exports } = new WebAssembly.Instance(new WebAssembly.Module(ceilingModule(instruction)));
      const run = exports.run as (passes: number) => number;
      for (const passes of [1, 2, 100]) expect(run(passes)).to.be.closeTo(expected(passes), 1e-3);
    });
});
