// Tags: kernels, pure
import { float16FromBits, float16ToBits } from "@backplane/core";
import { expect } from "chai";
import { narrow, planNarrow, planWiden, widen } from "#src/kernels/convert/convert.js";
import { address } from "#src/kernels/kernel.js";
import { Workbench } from "../workbench.js";
import { float32FromBits, randomNumbers } from "./numbers.js";

describe("f16 conversion kernels", () => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create([widen, narrow], { pages: 512 });
  });

  const narrowed = (values: Float32Array): Uint16Array => {
    const from = bench.upload(values);
    const to = bench.alloc(2 * values.length);
    bench.run([planNarrow(address(from), address(to), values.length)]);
    return bench.uint16(to);
  };

  it("widens all 65,536 patterns exactly", () => {
    const halves = Uint16Array.from({ length: 65536 }, (_, i) => i);
    const from = bench.upload(halves);
    const to = bench.alloc(4 * 65536);
    bench.run([planWiden(address(from), address(to), 65536)]);
    bench.float32(to).forEach((value, i) => {
      if (!Object.is(value, float16FromBits(i))) expect.fail(`${i.toString(16)}: ${value}`);
    });
  });

  it("narrows what it widened back to the same bits", () => {
    const values = Float32Array.from({ length: 65536 }, (_, i) => float16FromBits(i));
    narrowed(values).forEach((half, i) => {
      if (Number.isNaN(values[i])) expect(float16FromBits(half)).to.be.NaN;
      else if (half !== i) expect.fail(`${i.toString(16)}: ${half.toString(16)}`);
    });
  });

  it("rounds ties to even, and what lies just beside them to the nearest", () => {
    const values: number[] = [];
    const buffer = new DataView(new ArrayBuffer(4));
    const beside = (value: number, steps: number): number => {
      buffer.setFloat32(0, value);
      return float32FromBits((buffer.getUint32(0) + steps) >>> 0);
    };
    // Every midpoint between neighbouring halves, up to the one between 65504 and "65536".
    for (let bits = 0; bits < 0x7c00; bits++) {
      const above = bits === 0x7bff ? 65536 : float16FromBits(bits + 1);
      const middle = (float16FromBits(bits) + above) / 2;
      for (const value of [beside(middle, -1), middle, beside(middle, 1)]) values.push(value, -value);
    }
    const input = Float32Array.from(values);
    narrowed(input).forEach((half, i) => {
      if (half !== float16ToBits(input[i]!))
        expect.fail(`${input[i]}: ${half.toString(16)}, not ${float16ToBits(input[i]!).toString(16)}`);
    });
  });

  it("rounds numbers from all of f32", () => {
    const random = randomNumbers(8);
    const input = Float32Array.from({ length: 500_000 }, () =>
      float32FromBits(Math.floor(random() * 2 ** 32)),
    );
    narrowed(input).forEach((half, i) => {
      const x = input[i]!;
      const same = Number.isNaN(x) ? Number.isNaN(float16FromBits(half)) : half === float16ToBits(x);
      if (!same) expect.fail(`${x}: ${half.toString(16)}`);
    });
  });

  it("writes exactly the elements asked for, from any offset", () => {
    for (let count = 1; count <= 67; count++)
      for (const toHalf of [true, false]) {
        const [fromBytes, toBytes] = toHalf ? [4, 2] : [2, 4];
        const from = bench.alloc(fromBytes * (count + 3));
        const to = bench.alloc(toBytes * count + 64);
        const plan = toHalf ? planNarrow : planWiden;
        const start = toBytes * 3;
        // The source is all NaN.
        bench.run([plan(address(from) + fromBytes, address(to) + start, count)]);
        const bytes = bench.bytes(to);
        bytes.forEach((byte, i) => {
          const isInside = i >= start && i < start + toBytes * count;
          if (!isInside) expect(byte, `byte ${i} of ${count}`).to.equal(0xff);
        });
        const last = new DataView(bytes.buffer).getUint16(start + toBytes * count - 2, true);
        // NaN with other bits than the poison: 7e00 or its like, with the sign kept.
        if (toHalf) expect(last & 0x7fff).to.equal(0x7e00);
      }
  });
});
