// Tags: proof
import { expect } from "chai";
import { createReferenceBackend, soak } from "#src/index.js";

describe("The soak", () => {
  it("goes on for as long as it is told to", async () => {
    const backend = createReferenceBackend();
    await backend.init();
    const limits = { elements: 2 ** 11, multiplications: 2 ** 13, largestBytes: 2 ** 14, liveBytes: 2 ** 20 };
    const report = await soak(backend, { minutes: 0.01, limits });
    await backend.dispose();
    expect(report.reasons).to.deep.equal([]);
    expect(report.seconds).to.be.at.least(0.6);
    expect(report.tally.results).to.be.above(0);
  });
});
