// Tags: kernels, pure
import { inexactBinaryKinds, inexactUnaryKinds } from "@backplane/core";
import { expect } from "chai";
import { allKernels } from "#src/kernels/index.js";

describe("declared accuracy", () => {
  it("has every kind that rounds, and no other", () => {
    expect(Object.keys(allKernels.accuracy.unary!)).to.have.members(inexactUnaryKinds);
    expect(Object.keys(allKernels.accuracy.binary!)).to.have.members(inexactBinaryKinds);
  });
});
