// Tags: kernels, pure, long
import { expect } from "chai";
import { digits, resultOf } from "./program.js";

describe("the digits program", () => {
  it("trains convolutions, on both backends", async () => {
    const result = resultOf(await digits("--model cnn --epochs 0.04 --json"));
    expect(result.model).to.equal("cnn");
    expect(result.stretches.map(({ backend }) => backend)).to.deep.equal(["cpu", "webgpu", "cpu"]);
    expect(result.test.accuracy).to.be.greaterThan(0.75);
    expect(result.difference!.relative).to.be.lessThan(1e-5);
    expect(result.memory.freed.liveAllocations).to.equal(0);
  });
});
