// Tags: pure
import { assert } from "chai";
import { type Batch, pixels } from "#src/data.js";
import { shareOf } from "#src/shares.js";

/** Images whose pixels all have the number of the image. */
function batchOf(count: number): Batch {
  const images = Uint8Array.from({ length: count * pixels }, (_, i) => Math.floor(i / pixels));
  return { count, images, labels: Int32Array.from({ length: count }, (_, i) => i) };
}

describe("the shares of a batch", () => {
  it("have each image once, in order, and weights that add up to 1", () => {
    for (const [count, size] of [
      [100, 1],
      [100, 4],
      [10, 3],
      [4, 4],
      [3, 8],
      [1, 2],
    ] as const) {
      const shares = Array.from({ length: size }, (_, rank) => shareOf(batchOf(count), { rank, size }));
      const seen = shares.filter(({ weight }) => weight > 0).flatMap(({ part }) => [...part.labels]);
      assert.deepEqual(
        seen,
        Array.from({ length: count }, (_, i) => i),
        `${count} of ${size}`,
      );
      assert.closeTo(
        shares.reduce((sum, { weight }) => sum + weight, 0),
        1,
        1e-12,
      );
      for (const { part, weight } of shares) {
        assert.equal(part.images.length, part.count * pixels);
        assert.deepEqual(
          part.labels.map((_, i) => part.images[i * pixels]!),
          part.labels,
        );
        if (weight > 0) assert.closeTo(weight, part.count / count, 1e-12);
        else assert.equal(part.count, 1);
      }
    }
  });
});
