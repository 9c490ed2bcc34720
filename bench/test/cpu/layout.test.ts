import { expect } from "chai";
import { causalMask, permuted, transposition } from "#src/cpu/layout.js";

describe("layouts for peers", () => {
  it("put axes into another order, and back", () => {
    const shape = [2, 3, 4, 5];
    const data = Float32Array.from({ length: 120 }, (_, i) => i);
    const images = permuted(data, shape, [0, 2, 3, 1]);
    for (let n = 0; n < 2; n++)
      for (let c = 0; c < 3; c++)
        for (let y = 0; y < 4; y++)
          for (let x = 0; x < 5; x++)
            expect(images[((n * 4 + y) * 5 + x) * 3 + c]).to.equal(((n * 3 + c) * 4 + y) * 5 + x);
    expect(permuted(images, [2, 4, 5, 3], [0, 3, 1, 2])).to.deep.equal(data);
  });

  it("find the axes that strides tell", () => {
    const [shape, strides] = [
      [2, 20, 3],
      [60, 1, 20],
    ];
    const { inputShape, axes } = transposition(shape!, strides!);
    expect({ inputShape, axes }).to.deep.equal({ inputShape: [2, 3, 20], axes: [0, 2, 1] });
    const data = Float32Array.from({ length: 120 }, (_, i) => i);
    const turned = permuted(data, inputShape, axes);
    for (let n = 0; n < 2; n++)
      for (let x = 0; x < 20; x++)
        for (let c = 0; c < 3; c++) expect(turned[(n * 20 + x) * 3 + c]).to.equal(data[n * 60 + x + c * 20]);
  });

  it("mask keys that come after their query", () => {
    const seen = [...causalMask(3, 4)].map((value) => value === 0);
    expect(seen).to.deep.equal([
      ...[true, false, false, false],
      ...[true, true, false, false],
      ...[true, true, true, false],
    ]);
  });
});
