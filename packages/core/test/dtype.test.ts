import {
  bfloat16FromBits,
  bfloat16ToBits,
  type DType,
  decodeBfloat16,
  decodeFloat16,
  dtypeBytes,
  dtypes,
  elementTypes,
  encodeBfloat16,
  encodeFloat16,
  float16FromBits,
  float16ToBits,
  float32FromBits,
  float32ToBits,
} from "@backplane/core";
import { assert } from "chai";

/** The value of a binary16 bit pattern, spelt out from the standard. */
function decoded(bits: number): number {
  const sign = bits >= 0x8000 ? -1 : 1;
  const exponent = Math.floor((bits % 0x8000) / 1024);
  const fraction = bits % 1024;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  if (exponent === 0) return sign * (fraction / 1024) * 2 ** -14;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

describe("dtype", () => {
  it("lists every element type with its size", () => {
    assert.deepEqual(dtypeBytes, { f32: 4, f16: 2, i32: 4, u32: 4, u8: 1, bf16: 2 });
    assert.deepEqual(dtypes, ["f32", "f16", "i32", "u32", "u8", "bf16"]);
  });

  it("converts numbers of each type to their bits and back", () => {
    const samples: Readonly<Record<DType, readonly (readonly [number, number])[]>> = {
      f32: [
        [1, 0x3f800000],
        [-2.5, 0xc0200000],
        [-Infinity, 0xff800000],
        [2 ** -149, 1],
      ],
      f16: [
        [1, 0x3c00],
        [-2.5, 0xc100],
        [-Infinity, 0xfc00],
        [2 ** -24, 1],
      ],
      i32: [
        [0, 0],
        [-1, 0xffffffff],
        [-(2 ** 31), 0x80000000],
        [2 ** 31 - 1, 0x7fffffff],
      ],
      u32: [
        [0, 0],
        [1, 1],
        [2 ** 31, 0x80000000],
        [2 ** 32 - 1, 0xffffffff],
      ],
      u8: [
        [0, 0],
        [1, 1],
        [255, 255],
      ],
      bf16: [
        [1, 0x3f80],
        [-2.5, 0xc020],
        [-Infinity, 0xff80],
        [2 ** -133, 1],
      ],
    };
    for (const dtype of dtypes)
      for (const [value, bits] of samples[dtype]) {
        assert.equal(elementTypes[dtype].toBits(value), bits, `${dtype} ${value}`);
        assert.isTrue(Object.is(elementTypes[dtype].fromBits(bits), value), `${dtype} ${bits}`);
      }
  });

  describe("bfloat16", () => {
    it("is the upper half of an f32, for all bit patterns", () => {
      for (let bits = 0; bits < 0x10000; bits++)
        if (!Object.is(bfloat16FromBits(bits), float32FromBits(bits * 0x10000)))
          assert.fail(`pattern ${bits.toString(16)}`);
      assert.deepEqual([...decodeBfloat16(encodeBfloat16([1.5, -3, 2 ** -133]))], [1.5, -3, 2 ** -133]);
    });

    it("gives every pattern back, and one quiet NaN for all NaNs", () => {
      for (let bits = 0; bits < 0x10000; bits++) {
        const isNotANumber = (bits & 0x7f80) === 0x7f80 && (bits & 0x7f) !== 0;
        if (bfloat16ToBits(bfloat16FromBits(bits)) !== (isNotANumber ? 0x7fc0 : bits))
          assert.fail(`pattern ${bits.toString(16)}`);
      }
    });

    it("rounds to the nearest, ties to even, between all neighbours, once", () => {
      for (let bits = 0; bits < 0x7f80; bits++) {
        const below = bfloat16FromBits(bits);
        const above = bits === 0x7f7f ? 2 ** 128 : bfloat16FromBits(bits + 1);
        const middle = (below + above) / 2;
        for (const [value, expected] of [
          [middle, bits + (bits % 2)],
          [middle * (1 - 2 ** -53), bits],
          [middle * (1 + 2 ** -52), bits + 1],
        ] as const) {
          if (bfloat16ToBits(value) !== expected) assert.fail(`${value}: ${bfloat16ToBits(value)}`);
          if (bfloat16ToBits(-value) !== expected + 0x8000) assert.fail(`${-value}`);
        }
      }
    });
  });

  describe("float16", () => {
    it("decodes all 65,536 bit patterns to the number they stand for", () => {
      for (let bits = 0; bits < 0x10000; bits++)
        if (!Object.is(float16FromBits(bits), decoded(bits))) assert.fail(`pattern ${bits.toString(16)}`);
    });

    it("gives every pattern back, and one quiet NaN for all NaNs", () => {
      for (let bits = 0; bits < 0x10000; bits++) {
        const isNotANumber = (bits & 0x7c00) === 0x7c00 && (bits & 0x3ff) !== 0;
        if (float16ToBits(decoded(bits)) !== (isNotANumber ? 0x7e00 : bits))
          assert.fail(`pattern ${bits.toString(16)} became ${float16ToBits(decoded(bits)).toString(16)}`);
      }
    });

    it("rounds to the nearest, ties to even, between all neighbours", () => {
      for (let bits = 0; bits < 0x7c00; bits++) {
        const below = decoded(bits);
        // The step from the largest finite number leads to where 2^16 would be.
        const above = bits === 0x7bff ? 65536 : decoded(bits + 1);
        const middle = (below + above) / 2;
        const even = bits % 2 === 0 ? bits : bits + 1;
        // Doubles next to the tie: half a unit of the smallest relative step of a double away.
        const cases: [number, number][] = [
          [middle, even],
          [middle * (1 - 2 ** -53), bits],
          [middle * (1 + 2 ** -52), bits + 1],
          [(3 * below + above) / 4, bits],
          [(below + 3 * above) / 4, bits + 1],
        ];
        for (const [value, expected] of cases) {
          if (float16ToBits(value) !== expected) assert.fail(`${value}: ${float16ToBits(value)}`);
          if (float16ToBits(-value) !== expected + 0x8000) assert.fail(`${-value}`);
        }
      }
    });

    it("rounds once, straight from the double", () => {
      // Rounded to f32 first, this lies on the tie and would go down to the even neighbour.
      const value = 1 + 2 ** -11 + 2 ** -40;
      assert.equal(Math.fround(value), 1 + 2 ** -11);
      assert.equal(float16ToBits(value), 0x3c01);
    });

    it("overflows to infinity at the rounding boundary, not before", () => {
      assert.equal(float16ToBits(65504), 0x7bff);
      assert.equal(float16ToBits(65519.999999999), 0x7bff);
      assert.equal(float16ToBits(65520), 0x7c00);
      assert.equal(float16ToBits(-65520), 0xfc00);
      assert.equal(float16ToBits(Number.MAX_VALUE), 0x7c00);
      assert.equal(float16ToBits(Number.POSITIVE_INFINITY), 0x7c00);
      assert.equal(float16ToBits(Number.NEGATIVE_INFINITY), 0xfc00);
    });

    it("keeps subnormals and the sign of zero", () => {
      assert.equal(float16ToBits(2 ** -24), 1);
      assert.equal(float16ToBits(2 ** -25), 0, "a tie goes to zero, which is even");
      assert.equal(float16ToBits(2 ** -25 * (1 + 2 ** -52)), 1);
      assert.equal(float16ToBits(3 * 2 ** -25), 2);
      assert.equal(float16ToBits(1023 * 2 ** -24), 0x3ff);
      assert.equal(float16ToBits(Number.MIN_VALUE), 0);
      assert.equal(float16ToBits(-Number.MIN_VALUE), 0x8000);
      assert.equal(float16ToBits(0), 0);
      assert.equal(float16ToBits(-0), 0x8000);
    });

    it("converts arrays, also from f32 views", () => {
      const bits = encodeFloat16(Float32Array.of(1, -2, 65504, 1e9, NaN));
      assert.instanceOf(bits, Uint16Array);
      assert.deepEqual([...bits], [0x3c00, 0xc000, 0x7bff, 0x7c00, 0x7e00]);
      const values = decodeFloat16(bits);
      assert.instanceOf(values, Float32Array);
      assert.deepEqual([...values], [1, -2, 65504, Infinity, NaN]);
      assert.lengthOf(encodeFloat16([]), 0);
    });
  });

  it("gives the bits of the nearest f32", () => {
    assert.equal(float32ToBits(1), 0x3f800000);
    assert.equal(float32ToBits(-0), 0x80000000);
    assert.equal(float32ToBits(-Infinity), 0xff800000);
    assert.equal(float32ToBits(1e-45), 1);
    assert.equal(float32ToBits(1 + 2 ** -24), 0x3f800000, "ties go to even");
    assert.equal(float32ToBits(1 + 3 * 2 ** -24), 0x3f800002, "ties go to even");
    assert.equal(float32ToBits(NaN) & 0x7f800000, 0x7f800000);
    assert.notEqual(float32ToBits(NaN) & 0x007fffff, 0);
  });
});
