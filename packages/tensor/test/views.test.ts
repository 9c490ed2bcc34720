import { PartitionView, TensorView } from "@backplane/tensor";
import { assert } from "chai";
import fc from "fast-check";
import { throws } from "./support.js";

describe("TensorView", () => {
  it("finds elements through slices, steps, transpositions and repeats", () => {
    const whole = new TensorView([3, 4]);
    assert.deepEqual([...whole.slice(0, { start: 1 }).slice(1, { step: 2 }).indices()], [4, 6, 8, 10]);
    assert.deepEqual([...whole.slice(1, { start: -1, step: -3 }).indices()], [3, 0, 7, 4, 11, 8]);
    assert.deepEqual([...whole.transpose().slice(0, { end: 1 }).indices()], [0, 4, 8]);
    assert.deepEqual([...new TensorView([2]).unsqueeze(1).expand([2, 3]).indices()], [0, 0, 0, 1, 1, 1]);
    assert.equal(whole.slice(0, { start: 2 }).indexOf([0, -1]), 11);
    assert.deepEqual(whole.unsqueeze(0).unsqueeze(-1).squeeze().shape, [3, 4]);
    assert.deepEqual([...new TensorView([2, 0]).indices()], []);
    assert.deepEqual([...new TensorView([]).indices()], [0]);
  });

  it("knows how its elements lie", () => {
    const whole = new TensorView([3, 4]);
    assert.equal(whole.layout, "row");
    assert.equal(whole.transpose().layout, "column");
    assert.equal(whole.slice(1, { step: 2 }).layout, "strided");
    assert.isTrue(whole.slice(0, { start: 1 }).isContiguous);
    assert.isFalse(whole.slice(1, { start: 1 }).isContiguous);
  });

  it("has another shape without a copy wherever strides give the same order", () => {
    const extent = fc.constantFrom(1, 2, 3, 4);
    const shape = fc.array(extent, { maxLength: 4 });
    fc.assert(
      fc.property(
        shape,
        fc.array(fc.nat()),
        fc.array(fc.tuple(fc.nat(), fc.constantFrom(-2, -1, 1, 2)), { maxLength: 2 }),
        (extents, picks, cuts) => {
          let view = new TensorView(extents);
          if (extents.length > 0) {
            for (const [axis, step] of cuts) view = view.slice(axis % extents.length, { step });
            const order = extents.map((_, i) => i);
            for (const [i, pick] of picks.slice(0, 4).entries()) {
              const [a, b] = [i % order.length, pick % order.length];
              [order[a], order[b]] = [order[b]!, order[a]!];
            }
            view = view.permute(order);
          }
          // The factors of the size in another order.
          const target = picks.length % 2 === 0 ? [view.size] : [...view.shape].reverse();
          const wanted = [...view.indices()];
          const reshaped = view.reshape(target);
          if (reshaped !== undefined) {
            assert.deepEqual(reshaped.shape, target);
            assert.deepEqual([...reshaped.indices()], wanted);
          } else if (target.length === 1)
            // One axis has one step: no two steps may be there.
            assert.isAbove(new Set(wanted.slice(1).map((index, i) => index - wanted[i]!)).size, 1);
        },
      ),
    );
  });

  it("refuses what it does not have, and says why", () => {
    const whole = new TensorView([2, 3]);
    throws("OUT_OF_BOUNDS", /indexOf: place\[1\] is 3; allowed: -3 to 2/, () => whole.indexOf([0, 3]));
    throws("INVALID_ARGUMENT", /slice: axis is 2; allowed: -2 to 1/, () => whole.slice(2, {}));
    throws("INVALID_ARGUMENT", /slice: step is 0/, () => whole.slice(0, { step: 0 }));
    throws("INVALID_ARGUMENT", /permute: order is \[0, 0\]/, () => whole.permute([0, 0]));
    throws("INVALID_ARGUMENT", /squeeze: axes names axis 0 of extent 2/, () => whole.squeeze(0));
    throws("INVALID_ARGUMENT", /expand: shape/, () => whole.expand([3]));
    throws("INVALID_ARGUMENT", /TensorView: strides is \[1\]/, () => new TensorView([2, 2], [1]));
  });
});

describe("PartitionView", () => {
  it("has every element in just one tile, smaller ones at the far edges", () => {
    const whole = new TensorView([5, 7]).transpose();
    const tiles = new PartitionView(whole, [3, 2]);
    assert.deepEqual(tiles.grid, [3, 3]);
    const all = [...tiles];
    assert.lengthOf(all, tiles.count);
    assert.deepEqual(
      all.flatMap(({ view }) => [...view.indices()]).sort((a, b) => a - b),
      [...whole.indices()].sort((a, b) => a - b),
    );
    assert.deepEqual(
      all.filter(({ isEdge }) => isEdge).map(({ index }) => index.join()),
      ["0,2", "1,2", "2,0", "2,1", "2,2"],
    );
    const { start, shape, view } = tiles.tile([2, 1]);
    assert.deepEqual(
      [start, shape],
      [
        [6, 2],
        [1, 2],
      ],
    );
    assert.deepEqual([...view.indices()], [whole.indexOf([6, 2]), whole.indexOf([6, 3])]);
    throws("OUT_OF_BOUNDS", /tile: index is \[3, 0\]/, () => tiles.tile([3, 0]));
    throws("INVALID_ARGUMENT", /tileShape is \[2\]/, () => new PartitionView(whole, [2]));
  });

  it("has tiles of powers of two", () => {
    assert.deepEqual(PartitionView.powersOfTwo(new TensorView([5, 100, 1]), 40).tileShape, [8, 32, 1]);
    assert.deepEqual([...PartitionView.powersOfTwo(new TensorView([0, 3]), 4)], []);
  });
});
