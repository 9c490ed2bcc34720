import { expect } from "chai";
import { firstOf, planStretches, withoutFirst } from "#src/plan.js";

const steps = { perEpoch: 600, total: 1800 };

describe("planStretches", () => {
  it("gives all to one backend where one was asked for", () => {
    expect(planStretches("cpu", steps, 60)).to.deep.equal([{ backend: "cpu", steps: 1800 }]);
    expect(planStretches("webgpu", steps, 1800)).to.deep.equal([{ backend: "webgpu", steps: 1800 }]);
  });

  it("swaps in the middle of the first epoch, and back after a third of all steps", () => {
    expect(planStretches("swap", steps, 1800)).to.deep.equal([
      { backend: "cpu", steps: 300 },
      { backend: "webgpu", steps: 600 },
      { backend: "cpu", steps: 900 },
    ]);
  });

  it("keeps the share of a software adapter short", () => {
    expect(planStretches("swap", steps, 60)).to.deep.equal([
      { backend: "cpu", steps: 300 },
      { backend: "webgpu", steps: 60 },
      { backend: "cpu", steps: 1440 },
    ]);
  });

  it("computes every step exactly once, however few there are", () => {
    for (let total = 1; total < 12; total++) {
      const plan = planStretches("swap", { perEpoch: 600, total }, 60);
      expect(plan.reduce((sum, stretch) => sum + stretch.steps, 0)).to.equal(total);
      for (const stretch of plan) expect(stretch.steps).to.be.greaterThan(0);
    }
  });

  it("is continued where it was left", () => {
    const plan = planStretches("swap", steps, 60);
    expect(withoutFirst(plan, 310)).to.deep.equal([
      { backend: "webgpu", steps: 50 },
      { backend: "cpu", steps: 1440 },
    ]);
    expect(firstOf(plan, 310)).to.deep.equal([
      { backend: "cpu", steps: 300 },
      { backend: "webgpu", steps: 10 },
    ]);
    expect(withoutFirst(plan, 1800)).to.deep.equal([]);
  });
});
