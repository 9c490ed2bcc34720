import { expect } from "chai";
import { readPictures } from "#src/images.js";
import { FileError, readSafetensors } from "#src/safetensors.js";
import { arrays, safetensors } from "./model.js";

describe("files of the format safetensors", () => {
  it("give their arrays, wherever these begin", () => {
    for (const spaces of [0, 1, 2, 3])
      for (const before of [0, 5]) {
        const file = safetensors(arrays, spaces);
        const shifted = Buffer.concat([Buffer.alloc(before), file]).subarray(before);
        const read = readSafetensors(shifted);
        expect([...read.keys()]).to.deep.equal(Object.keys(arrays));
        for (const [name, { shape, values }] of read) {
          expect(shape).to.deep.equal(arrays[name]!.shape);
          expect(values).to.deep.equal(arrays[name]!.values);
        }
      }
  });

  it("are refused with what is wrong", () => {
    const of = (header: unknown, bytes = 0) => {
      const text = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(BigInt(text.length));
      return Buffer.concat([length, text, Buffer.alloc(bytes)]);
    };
    const entry = { dtype: "F32", shape: [2], data_offsets: [0, 8] };
    expect(readSafetensors(of({ a: entry }, 8)).get("a")!.values).to.have.length(2);
    for (const [file, message] of [
      [Buffer.alloc(7), /has 7 bytes; needed: at least 8/],
      [of({ a: entry }).subarray(0, 20), /should have \d+ bytes, but it ends after 12/],
      [of("{"), /not JSON/],
      [of({ a: entry }, 7), /a has shape \[2\], so 8 bytes, but they are at 0 to 8 of 7/],
      [of({ a: { ...entry, data_offsets: [0, 4] } }, 8), /at 0 to 4 of 8/],
      [of({ a: { ...entry, dtype: "BF16" } }, 8), /a is of type BF16; this program reads F32/],
      [of({ a: { ...entry, shape: [-2] } }, 8), /a has no shape/],
    ] as const)
      expect(() => readSafetensors(file)).to.throw(FileError, message);
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
