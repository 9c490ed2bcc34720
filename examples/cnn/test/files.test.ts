import { expect } from "chai";
import { FileError, readModel } from "#src/files.js";
import { readPictures } from "#src/images.js";
import { arrays, safetensors } from "./model.js";

describe("files of models", () => {
  it("give their arrays, wherever these begin", () => {
    for (const spaces of [0, 1, 2, 3])
      for (const before of [0, 5]) {
        const file = safetensors(arrays, spaces);
        const shifted = Buffer.concat([Buffer.alloc(before), file]).subarray(before);
        const read = readModel(shifted);
        expect([...read.keys()]).to.deep.equal(Object.keys(arrays));
        for (const [name, { shape, values }] of read) {
          expect(shape).to.deep.equal(arrays[name]!.shape);
          expect(values).to.deep.equal(arrays[name]!.values);
        }
      }
  });

  it("are refused if arrays are of another type", () => {
    const header = Buffer.from(JSON.stringify({ a: { dtype: "BF16", shape: [2], data_offsets: [0, 4] } }));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    const file = Buffer.concat([length, header, Buffer.alloc(4)]);
    expect(() => readModel(file)).to.throw(FileError, "a is of type bf16; this program reads f32.");
  });
});

describe("files of pictures", () => {
  it("give pixels, and logits if there are any", () => {
    const text = JSON.stringify({ 3: { pixels: [1, 2], logits: [0.5] }, 7: { pixels: [3, 4] } });
    expect(readPictures(text, 2)).to.deep.equal([
      { name: "3", pixels: Float32Array.of(1, 2), logits: [0.5] },
      { name: "7", pixels: Float32Array.of(3, 4), logits: [] },
    ]);
  });

  it("are refused with what is wrong", () => {
    for (const [text, message] of [
      ["[]", /not an object/],
      ["{}", /no pictures/],
      ["{", /not JSON/],
      ['{ "3": null }', /Picture "3" has no list "pixels" of 2 numbers/],
      ['{ "3": { "pixels": [1] } }', /no list "pixels" of 2 numbers/],
      ['{ "3": { "pixels": [1, 2], "logits": "many" } }', /"logits" that are not a list/],
    ] as const)
      expect(() => readPictures(text, 2)).to.throw(FileError, message);
  });
});
