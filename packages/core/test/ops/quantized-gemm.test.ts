import {
  costOf,
  decodeFloat16,
  encodeFloat16,
  fromGguf,
  type QuantizedGemmArguments,
  type QuantizedMatrix,
  type QuantizeOptions,
  quantize,
  quantizedBits,
  quantizedBlocks,
} from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve } from "../support/resolve.js";

const plain: QuantizedGemmArguments = {
  ...{ m: 3, n: 5, k: 70 },
  ...{ a: place(1), b: place(2), scales: place(3), c: place(4) },
};

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("quantizedGemm", { ...plain, ...change }), argument);
}

/** The weights that a matrix stands for, by the formula. */
function weightsOf({ bits, block, scaleType, b, scales, zeroPoints }: QuantizedMatrix, n: number, k: number) {
  const numbers = scaleType === "f16" ? decodeFloat16(scales) : scales;
  const blocks = Math.ceil(k / block);
  return Array.from({ length: n * k }, (_, i) => {
    const [row, p] = [Math.floor(i / k), i % k];
    const place = row * blocks + Math.floor(p / block);
    const at = row * blocks * block + p;
    const q = bits === 8 ? b[at]! : (b[at >> 1]! >> (4 * (at % 2))) & 15;
    return numbers[place]! * (q - (zeroPoints?.[place] ?? 2 ** (bits - 1)));
  });
}

describe("quantizedGemm descriptor", () => {
  it("counts whole blocks of B, and a scale and a zero point for each", () => {
    for (const bits of quantizedBits)
      for (const block of quantizedBlocks) {
        const change = { bits, block, zeroPoints: place(5), bias: place(6), scaleType: "f16" as const };
        const problem = problemOf("quantizedGemm", { ...plain, ...change });
        const blocks = Math.ceil(70 / block);
        assert.equal(problem.blocks, blocks);
        assert.equal(problem.a.byteLength, 4 * 3 * 70);
        assert.equal(problem.b.byteLength, (5 * blocks * block * bits) / 8);
        assert.equal(problem.scales.byteLength, 2 * 5 * blocks);
        assert.equal(problem.zeroPoints?.byteLength, 5 * blocks);
        assert.equal(problem.bias?.byteLength, 20);
        assert.equal(problem.c.byteLength, 60);
      }
  });

  it("has 4 bits, blocks of 32 and scales in f32 by default", () => {
    const { bits, block, scaleType, dtype, zeroPoints } = problemOf("quantizedGemm", plain);
    assert.deepEqual([bits, block, scaleType, dtype, zeroPoints], [4, 32, "f32", "f32", undefined]);
  });

  it("lets nobody round A unless the caller does", () => {
    assert.isFalse(problemOf("quantizedGemm", plain).mayRoundA);
    assert.isTrue(problemOf("quantizedGemm", { ...plain, mayRoundA: true }).mayRoundA);
    for (const mayRoundA of [1, "yes", null]) refuses({ mayRoundA }, "mayRoundA");
  });

  it("says which bits and blocks there are", () => {
    for (const bits of [0, 1, 3, 16, 4.5, "4"]) refuses({ bits }, "bits");
    for (const block of [0, 16, 48, 256, "32"]) refuses({ block }, "block");
    refuses({ scaleType: "bf16" }, "scaleType");
    refuses({ dtype: "u8" }, "dtype");
    refuses({ zeroPoint: place(5) }, "zeroPoint");
    assert.throws(() => resolve("quantizedGemm", { ...plain, bits: 5 }), /bits is 5; allowed: 4, 8/);
  });

  it("refuses results over any input", () => {
    for (const id of [1, 2, 3]) refuses({ c: place(id) }, "c");
    refuses({ zeroPoints: place(4) }, "c");
    refuses({ bias: place(4) }, "c");
  });

  it("has nothing to do for no results, and zeros or the bias where nothing is summed", () => {
    for (const change of [{ m: 0 }, { n: 0 }]) {
      const { problem, fills } = resolve("quantizedGemm", { ...plain, ...change });
      assert.deepEqual([problem, fills], [undefined, []]);
    }
    const { fills } = resolve("quantizedGemm", { ...plain, k: 0, activation: "gelu" });
    assert.deepEqual(
      fills.map(({ value, region }) => [value, region.byteLength]),
      [[0, 60]],
    );
    const { b, scales, k } = problemOf("quantizedGemm", { ...plain, k: 0, bias: place(6) });
    assert.deepEqual([b.byteLength, scales.byteLength, k], [0, 0, 0]);
  });

  it("costs two operations a product, and its bytes once", () => {
    const { flops, bytes } = costOf("quantizedGemm", { ...plain, activation: "relu" });
    assert.equal(flops, 15 * 141);
    assert.equal(bytes, 4 * 210 + 5 * 3 * 16 + 4 * 15 + 60);
  });
});

describe("fromGguf", () => {
  it("keeps every weight of Q4_0", () => {
    const bytes = Uint8Array.from({ length: 2 * 18 }, (_, i) => (i * 37 + 11) % 256);
    new Uint8Array(bytes.buffer).set(new Uint8Array(encodeFloat16([0.5]).buffer), 0);
    new Uint8Array(bytes.buffer).set(new Uint8Array(encodeFloat16([-3]).buffer), 18);
    const matrix = fromGguf("Q4_0", bytes);
    assert.deepEqual([matrix.bits, matrix.block, matrix.scaleType], [4, 32, "f16"]);
    const expected = Array.from({ length: 64 }, (_, i) => {
      const [start, j] = [18 * Math.floor(i / 32), i % 32];
      const byte = bytes[start + 2 + (j % 16)]!;
      return [0.5, -3][Math.floor(i / 32)]! * ((j < 16 ? byte & 15 : byte >> 4) - 8);
    });
    assert.deepEqual(weightsOf(matrix, 1, 64), expected);
  });

  it("keeps every weight of Q8_0, wherever the bytes lie", () => {
    const all = new Uint8Array(3 + 34);
    const bytes = all.subarray(3);
    bytes.set(new Uint8Array(encodeFloat16([0.25]).buffer), 0);
    for (let i = 0; i < 32; i++) bytes[2 + i] = 8 * i;
    const signed = new Int8Array(all.buffer, 5, 32);
    assert.deepEqual(
      weightsOf(fromGguf("Q8_0", bytes), 1, 32),
      Array.from(signed, (q) => 0.25 * q),
    );
  });

  it("refuses other formats and parts of blocks", () => {
    throws("INVALID_ARGUMENT", () => fromGguf("Q4_1" as "Q4_0", new Uint8Array(20)), "format");
    throws("INVALID_ARGUMENT", () => fromGguf("toString" as "Q4_0", new Uint8Array(0)), "format");
    throws("INVALID_ARGUMENT", () => fromGguf("Q4_0", new Uint8Array(19)), "bytes");
    throws("INVALID_ARGUMENT", () => fromGguf("Q8_0", [1] as unknown as Uint8Array), "bytes");
    assert.equal(fromGguf("Q8_0", new Uint8Array(0)).b.length, 0);
  });
});

describe("quantize", () => {
  const [n, k] = [3, 75];
  const weights = Float32Array.from({ length: n * k }, (_, i) => Math.sin(i * i) * (1 + (i % 5)));

  it("moves no weight by more than half a scale", () => {
    for (const bits of quantizedBits)
      for (const block of quantizedBlocks)
        for (const scaleType of ["f32", "f16"] as const)
          for (const zeroPoints of [false, true]) {
            const matrix = quantize(weights, { n, k, bits, block, scaleType, zeroPoints });
            const scales = scaleType === "f16" ? decodeFloat16(matrix.scales) : matrix.scales;
            const blocks = Math.ceil(k / block);
            for (const [i, weight] of weightsOf(matrix, n, k).entries()) {
              const scale = scales[Math.floor(i / k) * blocks + Math.floor((i % k) / block)]!;
              // A zero point that is rounded shifts the ends of the range by as much.
              const most = (zeroPoints ? 1.01 : 0.505) * scale * (scaleType === "f16" ? 1.15 : 1);
              assert.isAtMost(Math.abs(weight - weights[i]!), most, `${bits} ${block} ${scaleType} ${i}`);
            }
          }
  });

  it("keeps 0, and stores 0 past the end of a row", () => {
    const few = Float32Array.from({ length: 33 }, (_, i) => (i % 2 === 0 ? 0 : i));
    for (const zeroPoints of [false, true]) {
      const matrix = quantize(few, { n: 1, k: 33, bits: 8, zeroPoints });
      assert.equal(matrix.b.length, 64);
      const wide = weightsOf(matrix, 1, 33);
      for (let i = 0; i < 33; i += 2) assert.equal(wide[i], 0);
      for (let i = 33; i < 64; i++) assert.equal(matrix.b[i], matrix.zeroPoints?.[1] ?? 128);
    }
    assert.deepEqual(weightsOf(quantize(new Float32Array(32), { n: 1, k: 32 }), 1, 32), Array(32).fill(0));
  });

  it("refuses what it cannot store, and says so", () => {
    const bad = (options: object, argument: string, given: unknown = weights) =>
      throws(
        "INVALID_ARGUMENT",
        () => quantize(given as Float32Array, { n, k, ...options } as QuantizeOptions),
        argument,
      );
    bad({ n: 4 }, "weights");
    bad({ bits: 5 }, "bits");
    bad({ block: 16 }, "block");
    bad({ scaleType: "bf16" }, "scaleType");
    bad({ zeroPoints: 1 }, "zeroPoints");
    bad({ rows: 3 }, "rows");
    bad({ k: -1 }, "k");
    bad({}, "weights", [1, 2]);
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) bad({}, "weights", weights.with(9, value));
    bad({ scaleType: "f16" }, "weights", weights.with(9, 1e9));
  });
});
