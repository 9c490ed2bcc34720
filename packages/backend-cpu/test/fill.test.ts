import { expect } from "chai";
import { copyBytes, fillBytes, fillPattern, planFill } from "#src/kernels/memory/memory.js";
import { Workbench } from "./workbench.js";

describe("fill and copy kernels", () => {
  let bench: Workbench;
  before(async () => {
    bench = await Workbench.create([fillPattern, fillBytes, copyBytes]);
  });

  const lengths = [1, 2, 3, 4, 5, 15, 16, 17, 63, 100, (1 << 18) - 1, 1 << 18, (1 << 18) + 5];

  for (const pattern of [0, 0x7f7f7f7f, 0xa1b2c3d4, 0x3c003c00]) {
    it(`writes ${pattern.toString(16)} at any offset and length, and nothing around it`, () => {
      for (const length of lengths) {
        for (let offset = 0; offset < 5; offset++) {
          const whole = bench.upload(new Uint8Array(length + 16).fill(0x55));
          const region = { ...whole, byteOffset: offset, byteLength: length };
          bench.run([planFill(region, pattern)]);
          const expected = Uint8Array.from({ length: length + 16 }, (_, i) =>
            i < offset || i >= offset + length ? 0x55 : (pattern >>> (8 * (i % 4))) & 0xff,
          );
          expect(Buffer.compare(bench.bytes(whole), expected), `${length} at ${offset}`).to.equal(0);
        }
      }
    });
  }
});
