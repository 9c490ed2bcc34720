import { expect } from "chai";
import { gather, loadDigits, pixels } from "#src/data.js";

describe("loadDigits", () => {
  const { training, test } = loadDigits();

  it("has all 60,000 training and 10,000 test images", () => {
    expect(training.count).to.equal(60_000);
    expect(training.images.length).to.equal(60_000 * pixels);
    expect(training.labels.length).to.equal(60_000);
    expect(test.count).to.equal(10_000);
    expect(test.images.length).to.equal(10_000 * pixels);
  });

  it("has the labels that the set is known to begin with", () => {
    expect([...training.labels.subarray(0, 8)]).to.deep.equal([5, 0, 4, 1, 9, 2, 1, 3]);
    expect([...test.labels.subarray(0, 8)]).to.deep.equal([7, 2, 1, 0, 4, 1, 4, 9]);
  });

  it("gathers images into batches", () => {
    const batch = gather(test, Uint32Array.of(2, 0));
    expect(batch.count).to.equal(2);
    expect([...batch.labels]).to.deep.equal([1, 7]);
    expect(batch.images.length).to.equal(2 * pixels);
    expect(batch.images[pixels + 300]).to.equal(test.images[300]);
    expect(Math.max(...batch.images)).to.be.within(230, 255);
  });
});
