// Tags: kernels, pure
import { inexactBinaryKinds, inexactUnaryKinds } from "@backplane/core";
import { expect } from "chai";
import { accuracy } from "#src/kernels/index.js";

describe("declared accuracy", () => {
  it("has every kind that rounds, and no other", () => {
    expect(Object.keys(accuracy.unary!)).to.have.members(inexactUnaryKinds);
    expect(Object.keys(accuracy.binary!)).to.have.members(inexactBinaryKinds);
  });
});
