import { expect } from "chai";
import { quantile, ratios, summarise } from "#src/statistics.js";

describe("statistics of samples", () => {
  it("take the middle value, or what lies between the two middle ones", () => {
    expect(quantile([9, 1, 5], 0.5)).to.equal(5);
    expect(quantile([1, 2, 10, 20], 0.5)).to.equal(6);
    expect(quantile([3], 0.75)).to.equal(3);
    expect(() => quantile([], 0.5)).to.throw(RangeError, "no values");
  });

  it("do not let one disturbed sample of five count", () => {
    const { median, spread } = summarise([1, 1.01, 4, 1.02, 1.01]);
    expect(median).to.equal(1.01);
    expect(spread).to.be.below(0.02);
    expect(summarise([1, 1.2, 2.5, 3, 1]).spread).to.be.above(0.5);
  });

  it("compare round by round, by the work that each did", () => {
    expect(ratios([1, 2, 4], [2, 4, 8])).to.deep.equal([2, 2, 2]);
    expect(ratios([1], [2], 0.25)).to.deep.equal([0.5]);
    expect(() => ratios([1, 2], [1])).to.throw(RangeError, "2 and 1 values");
  });
});
